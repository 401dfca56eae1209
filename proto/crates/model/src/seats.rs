//! Where the tasks of an attempt run.

use std::{fmt, str::FromStr};

use crate::{Name, NameError};

/// The hosts of an attempt: for every role in the order of the matrix, the hosts it runs on, one after the other. A role with
/// several instances on each host puts the first ones on its first host.
///
/// As text: roles separated by `/`, hosts by `,`, as in `web1/c1,c2`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seats(Vec<Vec<Name>>);

/// Why a text does not say where tasks run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SeatsError {
    /// A role without hosts, or no role.
    #[error("a role has no host")]
    Empty,
    /// Something in it is no name.
    #[error("`{text}` is no name of a host")]
    Host {
        /// What it is instead.
        text: String,
        /// Why it is none.
        source: NameError,
    },
}

impl Seats {
    /// The hosts of every role, in the order of the matrix; each role has one at least.
    #[must_use]
    pub fn new(roles: Vec<Vec<Name>>) -> Self {
        Self(roles)
    }

    /// All roles on one host.
    #[must_use]
    pub fn all_on(host: &Name, roles: usize) -> Self {
        Self(vec![vec![host.clone()]; roles])
    }

    /// The hosts of a role, by its place in the matrix; empty if there is no such role.
    #[must_use]
    pub fn of_role(&self, role: usize) -> &[Name] {
        self.0.get(role).map_or(&[], Vec::as_slice)
    }

    /// The host of one instance of a role that has `per_host` instances on each of its hosts.
    #[must_use]
    pub fn host(&self, role: usize, instance: u32, per_host: u32) -> Option<&Name> {
        let slot = usize::try_from(instance.checked_div(per_host)?).ok()?;
        self.of_role(role).get(slot)
    }

    /// Every host once, in the order in which the roles name them.
    #[must_use]
    pub fn hosts(&self) -> Vec<&Name> {
        let mut hosts: Vec<&Name> = Vec::new();
        for host in self.0.iter().flatten() {
            if !hosts.contains(&host) {
                hosts.push(host);
            }
        }
        hosts
    }
}

impl fmt::Display for Seats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (role, hosts) in self.0.iter().enumerate() {
            if role > 0 {
                f.write_str("/")?;
            }
            for (place, host) in hosts.iter().enumerate() {
                if place > 0 {
                    f.write_str(",")?;
                }
                write!(f, "{host}")?;
            }
        }
        Ok(())
    }
}

impl FromStr for Seats {
    type Err = SeatsError;

    fn from_str(text: &str) -> Result<Self, SeatsError> {
        if text.is_empty() {
            return Err(SeatsError::Empty);
        }
        let host = |text: &str| {
            let fail = |source| SeatsError::Host { text: text.to_owned(), source };
            text.parse::<Name>().map_err(fail)
        };
        let role = |text: &str| match text {
            "" => Err(SeatsError::Empty),
            _ => text.split(',').map(host).collect(),
        };
        text.split('/').map(role).collect::<Result<_, _>>().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expect_the_host_of_each_instance_when_roles_run_on_several() {
        let seats: Seats = "web1/c1,c2".parse().unwrap();
        assert_eq!(seats.to_string(), "web1/c1,c2");
        let host = |role, instance| seats.host(role, instance, 2).map(ToString::to_string);
        assert_eq!(host(0, 1).as_deref(), Some("web1"));
        assert_eq!(host(1, 1).as_deref(), Some("c1"));
        assert_eq!(host(1, 2).as_deref(), Some("c2"));
        assert_eq!((host(1, 4), host(2, 0)), (None, None));
        assert_eq!(seats.hosts().len(), 3);
    }

    #[test]
    fn expect_one_host_when_all_roles_share_it() {
        let seats = Seats::all_on(&"local".parse().unwrap(), 2);
        assert_eq!(seats.to_string(), "local/local");
        assert_eq!(seats.hosts(), [&"local".parse::<Name>().unwrap()]);
    }

    #[test]
    fn expect_a_reason_when_the_text_names_no_hosts() {
        assert_eq!("".parse::<Seats>(), Err(SeatsError::Empty));
        assert_eq!("a/".parse::<Seats>(), Err(SeatsError::Empty));
        assert!(matches!("a/b,,c".parse::<Seats>(), Err(SeatsError::Host { .. })));
    }
}
