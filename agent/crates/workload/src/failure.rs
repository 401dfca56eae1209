//! Why a connection failed, by the kinds that the report counts.

use rustix::io::Errno;

use crate::report::ErrorCounts;

/// Why a connection failed. Displayed as the cause in messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Failure {
    /// Nothing listens.
    #[error("connection refused")]
    Refused,
    /// The other side reset the connection.
    #[error("connection reset by the server")]
    Reset,
    /// No end within the timeout.
    #[error("not finished within the timeout")]
    Timeout,
    /// No local port was free.
    #[error("no free local port")]
    NoPort,
    /// Too many open files.
    #[error("too many open files")]
    FdLimit,
    /// The server closed before everything was answered.
    #[error("closed by the server before the response was complete")]
    EarlyEnd,
    /// The response cannot be read.
    #[error("the response is not HTTP")]
    NotHttp,
    /// The response is no 200.
    #[error("status {0} instead of 200")]
    Status(u16),
    /// Another error of a system call.
    #[error("{0}")]
    System(Errno),
}

impl From<Errno> for Failure {
    fn from(error: Errno) -> Self {
        match error {
            Errno::CONNREFUSED => Self::Refused,
            Errno::CONNRESET | Errno::PIPE => Self::Reset,
            Errno::TIMEDOUT => Self::Timeout,
            Errno::ADDRNOTAVAIL | Errno::ADDRINUSE => Self::NoPort,
            Errno::MFILE | Errno::NFILE => Self::FdLimit,
            error => Self::System(error),
        }
    }
}

/// What became of the connections of one thread, or of all.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    /// Connections started.
    pub started: u64,
    /// Connections that did all they should.
    pub succeeded: u64,
    /// Calls answered with 200.
    pub calls: u64,
    /// Failed connections by kind.
    pub errors: ErrorCounts,
    /// The first failure of each kind, at most [`Self::CAUSES`].
    pub causes: Vec<Failure>,
}

impl Tally {
    /// Most causes kept for messages.
    const CAUSES: usize = 8;

    /// Counts a failure.
    pub(crate) fn fail(&mut self, failure: Failure) {
        let errors = &mut self.errors;
        let counter = match failure {
            Failure::Refused => &mut errors.refused,
            Failure::Reset => &mut errors.reset,
            Failure::Timeout => &mut errors.timeout,
            Failure::NoPort => &mut errors.address_in_use,
            Failure::FdLimit => &mut errors.fd_limit,
            Failure::EarlyEnd | Failure::NotHttp | Failure::Status(_) | Failure::System(_) => {
                &mut errors.other
            }
        };
        *counter += 1;
        self.keep_cause(failure);
    }

    /// Connections that failed.
    pub(crate) fn failed(&self) -> u64 {
        let ErrorCounts { refused, reset, timeout, address_in_use, fd_limit, other } = self.errors;
        refused + reset + timeout + address_in_use + fd_limit + other
    }

    /// Adds those of another thread.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.started += other.started;
        self.succeeded += other.succeeded;
        self.calls += other.calls;
        self.errors.refused += other.errors.refused;
        self.errors.reset += other.errors.reset;
        self.errors.timeout += other.errors.timeout;
        self.errors.address_in_use += other.errors.address_in_use;
        self.errors.fd_limit += other.errors.fd_limit;
        self.errors.other += other.errors.other;
        for cause in &other.causes {
            self.keep_cause(*cause);
        }
    }

    fn keep_cause(&mut self, cause: Failure) {
        if self.causes.len() < Self::CAUSES && !self.causes.contains(&cause) {
            self.causes.push(cause);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expect_each_error_under_its_kind() {
        let mut tally = Tally::default();
        for error in [
            Errno::CONNREFUSED,
            Errno::PIPE,
            Errno::TIMEDOUT,
            Errno::ADDRNOTAVAIL,
            Errno::MFILE,
            Errno::INVAL,
        ] {
            tally.fail(error.into());
        }
        tally.fail(Failure::Status(500));
        let expected =
            ErrorCounts { refused: 1, reset: 1, timeout: 1, address_in_use: 1, fd_limit: 1, other: 2 };
        assert_eq!(tally.errors, expected);
        assert_eq!(tally.failed(), 7);
        let mut sum = tally.clone();
        sum.merge(&tally);
        assert_eq!(sum.failed(), 14);
        assert_eq!(sum.causes, tally.causes, "the same causes are kept once");
    }
}
