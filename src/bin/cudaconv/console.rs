//! Lines to the two standard streams. Whoever reads them may go away at any time (`cudaconv … |
//! head`): the video is still to be finished, so failed writes are ignored.

use std::io::Write;

/// A line to standard output: results.
pub fn result(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// A line to standard error: what is going on, and errors.
pub fn note(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
