//! Where bytes of ours stand between those of a provider.
//!
//! A provider that ends its lines with CR LF may have them parted by the network. The CR alone ends
//! a frame, which is passed on at once; a beat right behind it would part the two for good, and
//! with them the frame for readers who know CR LF as one. So the LF is sent ahead of what is ours,
//! and left out where it comes.

use bytes::{Buf as _, Bytes};

/// What went out last.
#[derive(Debug, Default)]
pub(crate) struct Seam {
    ends_in_cr: bool,
    /// Whether the LF behind a CR was sent before it came.
    is_ahead: bool,
}

impl Seam {
    /// Returns the provider's bytes as they go out.
    pub(crate) fn theirs(&mut self, mut bytes: Bytes) -> Bytes {
        if std::mem::take(&mut self.is_ahead) && bytes.starts_with(b"\n") {
            bytes.advance(1);
        }
        self.note(&bytes);
        bytes
    }

    /// Returns bytes of ours as they go out.
    pub(crate) fn ours(&mut self, bytes: Bytes) -> Bytes {
        if !self.ends_in_cr {
            self.note(&bytes);
            return bytes;
        }
        self.is_ahead = true;
        self.note(&bytes);
        [&b"\n"[..], &bytes].concat().into()
    }

    /// Returns what is still to be sent at the end.
    pub(crate) fn end(&mut self) -> Option<Bytes> {
        std::mem::take(&mut self.ends_in_cr).then_some(Bytes::from_static(b"\n"))
    }

    fn note(&mut self, bytes: &Bytes) {
        if let Some(last) = bytes.last() {
            self.ends_in_cr = *last == b'\r';
        }
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn bytes(text: &'static str) -> Bytes {
        Bytes::from_static(text.as_bytes())
    }

    #[test]
    fn a_line_end_that_the_network_parted_is_whole_before_what_is_ours() {
        let mut seam = Seam::default();

        assert_eq!(seam.theirs(bytes("data: 1\r\n\r")), "data: 1\r\n\r");
        assert_eq!(seam.ours(bytes(": a\n")), "\n: a\n");
        assert_eq!(seam.ours(bytes(": b\n")), ": b\n");
        assert_eq!(seam.theirs(bytes("\ndata: 2\r\n\r\n")), "data: 2\r\n\r\n");
        assert_eq!(seam.ours(bytes(": c\n")), ": c\n");
        assert_eq!(seam.theirs(bytes("\n\n")), "\n\n");
        assert_eq!(seam.end(), None);
    }

    #[test]
    fn a_line_end_that_the_network_parted_is_whole_at_the_end() {
        let mut seam = Seam::default();

        seam.theirs(bytes("data: [DONE]\r\n\r"));

        assert_eq!(seam.end().as_deref(), Some(&b"\n"[..]));
        assert_eq!(seam.end(), None);
    }

    #[test]
    fn a_cr_that_stays_alone_is_followed_by_nothing_of_theirs_that_is_left_out() {
        let mut seam = Seam::default();

        seam.theirs(bytes("data: 1\r\r"));
        assert_eq!(seam.ours(bytes(": a\n")), "\n: a\n");
        assert_eq!(seam.theirs(bytes("data: 2\r\r")), "data: 2\r\r");
        assert_eq!(seam.theirs(bytes("\ndata: 3\n\n")), "\ndata: 3\n\n");
    }
}
