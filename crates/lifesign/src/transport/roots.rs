//! Certificates that somebody wants trusted besides the system's, read from PEM.

use rustls::RootCertStore;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;

/// An entry of `extra_roots` that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`tls_extra_roots` entry {number} {problem}")]
pub struct RootsError {
    /// The entry, counted from 1.
    pub number: usize,
    /// What is wrong with it.
    pub problem: RootsProblem,
}

/// What is wrong with a PEM file of certificates. Displayed, it is a predicate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RootsProblem {
    /// A certificate in it is broken.
    #[error("holds a broken certificate, number {number} in it")]
    BrokenCertificate {
        /// The certificate, counted from 1.
        number: usize,
    },
    /// It holds none.
    #[error("holds no certificate in PEM form")]
    NoCertificate,
}

/// Reads the certificates of each PEM file.
pub(super) fn read_all(files: &[Vec<u8>]) -> Result<Vec<CertificateDer<'static>>, RootsError> {
    let mut roots = Vec::new();
    for (index, pem) in files.iter().enumerate() {
        let number = index + 1;
        roots.extend(read_roots(pem).map_err(|problem| RootsError { number, problem })?);
    }
    Ok(roots)
}

/// Reads the certificates of one PEM file.
///
/// Each is looked into, so that a broken one is not first noticed when TLS is set up for a call.
pub(crate) fn read_roots(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, RootsProblem> {
    let mut roots = Vec::new();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let broken = RootsProblem::BrokenCertificate {
            number: roots.len() + 1,
        };
        let certificate = certificate.map_err(|_| broken)?;
        RootCertStore::empty()
            .add(certificate.clone())
            .map_err(|_| broken)?;
        roots.push(certificate);
    }
    if roots.is_empty() {
        return Err(RootsProblem::NoCertificate);
    }
    Ok(roots)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn certificate() -> String {
        rcgen::generate_simple_self_signed(["a.test".to_owned()])
            .unwrap()
            .cert
            .pem()
    }

    #[test]
    fn roots_that_hold_no_certificate_are_refused_by_number() {
        let files = [certificate().into_bytes(), b"not a certificate".to_vec()];

        let error = read_all(&files).unwrap_err();

        assert_eq!(
            error.to_string(),
            "`tls_extra_roots` entry 2 holds no certificate in PEM form"
        );
    }

    /// A block that only looks like a certificate was taken, and the first call then said that TLS
    /// could not be set up on this machine.
    #[test]
    fn a_block_whose_der_is_broken_is_refused_with_its_number_in_the_file() {
        let good = certificate();
        let not_der = "-----BEGIN CERTIFICATE-----\naGVsbG8=\n-----END CERTIFICATE-----\n";
        let not_base64 = "-----BEGIN CERTIFICATE-----\n???\n-----END CERTIFICATE-----\n";
        let torn: String = good.lines().take(3).collect::<Vec<_>>().join("\n");

        for broken in [not_der, not_base64, &torn] {
            assert_eq!(
                read_all(&[format!("{good}{good}{broken}").into_bytes()])
                    .unwrap_err()
                    .to_string(),
                "`tls_extra_roots` entry 1 holds a broken certificate, number 3 in it"
            );
        }
        assert_eq!(read_roots(good.as_bytes()).unwrap().len(), 1);
    }
}
