//! Proves to the host who we are: with keys that were named, with the ssh-agent, with the default keys. No passwords.

use std::{io, path::Path};

use libssh2_sys::{
    LIBSSH2_ERROR_AUTHENTICATION_FAILED, LIBSSH2_ERROR_FILE, LIBSSH2_ERROR_KEYFILE_AUTH_FAILED,
    LIBSSH2_ERROR_METHOD_NOT_SUPPORTED, LIBSSH2_ERROR_PUBLICKEY_UNVERIFIED,
};
use ssh2::ErrorCode;

use super::{
    SshError,
    key_file::{KeyFile, public_key, read},
    route::Hop,
    wire::Wire,
};

const DURING: &str = "authenticate";

/// Authenticates the session.
///
/// # Errors
/// What was tried, and why each did not work; or the session failed.
pub(super) fn authenticate(wire: &Wire, hop: &Hop) -> Result<(), SshError> {
    let mut tried = Vec::new();
    let done = try_all(wire, hop, &mut tried);
    match done {
        Ok(true) => Ok(()),
        Ok(false) => {
            let methods =
                wire.finish(DURING, || wire.session().auth_methods(&hop.user).map(ToOwned::to_owned));
            // A host that asks for nothing has let us in by now.
            if wire.session().authenticated() {
                return Ok(());
            }
            Err(SshError::Auth {
                host: hop.name.clone(),
                user: hop.user.clone(),
                methods: methods.ok(),
                tried,
            })
        }
        // The host hangs up after too many keys.
        Err(SshError::Session { source, .. }) => {
            tried.push(format!("then the host ended the connection ({source})"));
            Err(SshError::Auth { host: hop.name.clone(), user: hop.user.clone(), methods: None, tried })
        }
        Err(other) => Err(other),
    }
}

fn try_all(wire: &Wire, hop: &Hop, tried: &mut Vec<String>) -> Result<bool, SshError> {
    for path in &hop.identities {
        if try_file(wire, hop, path, true, tried)? {
            return Ok(true);
        }
    }
    if let Some(socket) = &hop.identity_agent
        && try_agent(wire, hop, socket, tried)?
    {
        return Ok(true);
    }
    for path in &hop.default_identities {
        if try_file(wire, hop, path, false, tried)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether the host takes the key in this file. One that is missing is worth a word only if it was named.
fn try_file(
    wire: &Wire,
    hop: &Hop,
    path: &Path,
    named: bool,
    tried: &mut Vec<String>,
) -> Result<bool, SshError> {
    let why = match read(path) {
        KeyFile::Usable(text) => {
            let session = wire.session();
            match attempt(wire, || session.userauth_pubkey_memory(&hop.user, None, &text, None))? {
                None => return Ok(true),
                Some(why) => why,
            }
        }
        KeyFile::Missing if named => "there is no such file".to_owned(),
        KeyFile::Missing => return Ok(false),
        KeyFile::Unusable(why) => why,
    };
    tried.push(format!("`{}`: {why}", path.display()));
    Ok(false)
}

/// Whether the host takes one of the ssh-agent's keys.
fn try_agent(wire: &Wire, hop: &Hop, socket: &Path, tried: &mut Vec<String>) -> Result<bool, SshError> {
    let mut failed = |what: &str, error: &dyn std::error::Error| {
        tried.push(format!("ssh-agent at `{}`: {what}: {error}", socket.display()));
        Ok(false)
    };
    let mut agent = match wire.session().agent() {
        Ok(agent) => agent,
        Err(error) => return failed("cannot be used", &io::Error::from(error)),
    };
    let connected = agent.set_identity_path(socket).and_then(|()| agent.connect());
    if let Err(error) = connected {
        return failed("cannot be connected to", &io::Error::from(error));
    }
    if let Err(error) = wire.finish(DURING, || agent.list_identities()) {
        return failed("does not list its keys", &error);
    }
    let mut keys = agent.identities().unwrap_or_default();
    if hop.identities_only {
        let named: Vec<_> = hop.identities.iter().filter_map(|path| public_key(path)).collect();
        keys.retain(|key| named.iter().any(|named| named == key.blob()));
    }
    if keys.is_empty() {
        let only = if hop.identities_only {
            "none of the keys that may be used (IdentitiesOnly)"
        } else {
            "no keys"
        };
        tried.push(format!("ssh-agent: has {only}"));
    }
    for key in &keys {
        match attempt(wire, || agent.userauth(&hop.user, key))? {
            None => return Ok(true),
            Some(why) => tried.push(format!("ssh-agent's key `{}`: {why}", key.comment())),
        }
    }
    Ok(false)
}

/// Why a key does not work; `None` if it does.
fn attempt(
    wire: &Wire,
    mut call: impl FnMut() -> Result<(), ssh2::Error>,
) -> Result<Option<String>, SshError> {
    // The code is lost in an `io::Error`.
    let outcome = wire.finish(DURING, || match call() {
        Ok(()) => Ok(None),
        Err(error) => match error.code() {
            ErrorCode::Session(LIBSSH2_ERROR_AUTHENTICATION_FAILED | LIBSSH2_ERROR_PUBLICKEY_UNVERIFIED) => {
                Ok(Some("the host does not accept it".to_owned()))
            }
            ErrorCode::Session(
                LIBSSH2_ERROR_FILE | LIBSSH2_ERROR_KEYFILE_AUTH_FAILED | LIBSSH2_ERROR_METHOD_NOT_SUPPORTED,
            ) => Ok(Some(format!("cannot be used: {}", error.message()))),
            _ => Err(error),
        },
    })?;
    Ok(outcome)
}
