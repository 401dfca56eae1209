//! What is in the certificates.

use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, KeyUsagePurpose, SanType,
};

use super::{PeerKind, PkiError};

/// Days that an authority is valid.
pub(super) const AUTHORITY_DAYS: u32 = 3650;

/// How long before now certificates become valid, for hosts whose clocks are slow.
const SLACK: Duration = Duration::from_secs(24 * 3600);

/// One day.
const DAY: Duration = Duration::from_secs(24 * 3600);

/// An authority that signs agents and controllers, and no further authorities.
pub(super) fn authority() -> CertificateParams {
    let mut params = valid_for(AUTHORITY_DAYS);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params.distinguished_name.push(DnType::OrganizationName, "Drover");
    params.distinguished_name.push(DnType::CommonName, "Drover authority");
    params
}

/// Somebody who connects, or is connected to, but not both. An agent's name is its DNS name.
pub(super) fn peer(name: &str, kind: PeerKind, days: u32) -> Result<CertificateParams, PkiError> {
    let mut params = valid_for(days);
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.use_authority_key_identifier_extension = true;
    params.distinguished_name.push(DnType::OrganizationName, "Drover");
    params.distinguished_name.push(DnType::CommonName, name);
    let usage = match kind {
        PeerKind::Agent => {
            params.subject_alt_names = vec![SanType::DnsName(name.try_into()?)];
            ExtendedKeyUsagePurpose::ServerAuth
        }
        PeerKind::Controller => ExtendedKeyUsagePurpose::ClientAuth,
    };
    params.extended_key_usages = vec![usage];
    Ok(params)
}

fn valid_for(days: u32) -> CertificateParams {
    let now = SystemTime::now();
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.not_before = now.checked_sub(SLACK).unwrap_or(now).into();
    params.not_after = now.checked_add(DAY.saturating_mul(days)).unwrap_or(now).into();
    params
}
