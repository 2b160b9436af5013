//! `lifesign run`: turns of an agent, on a terminal or unattended.

mod show;
