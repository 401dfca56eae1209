//! `drover pki`: certificates for hosts with a resident agent.

use drover_connect::{CertificateInfo, PeerKind, PkiError, pki_init, pki_issue, pki_show};

use crate::{
    Context,
    args::{PkiArgs, PkiCommand},
    driver::chain,
    error::Failure,
    exit::ExitStatus,
};

/// Makes, issues or lists certificates.
pub fn pki(args: &PkiArgs, context: &Context) -> Result<ExitStatus, Failure> {
    let dir = &args.dir;
    match &args.command {
        PkiCommand::Init { force } => {
            print(&pki_init(dir, *force).map_err(failure)?, context);
            context.screen.say(&format!(
                "whoever has {}/ca-key.pem can command every agent of this authority: keep it safe; next: drover pki issue HOST",
                dir.display()
            ));
        }
        PkiCommand::Issue { name, controller, days, force } => {
            let kind = if *controller { PeerKind::Controller } else { PeerKind::Agent };
            let (folder, info) = pki_issue(dir, name, kind, *days, *force).map_err(failure)?;
            print(&[info], context);
            let folder = folder.display();
            context.screen.say(&if *controller {
                format!("copy {folder} to where that controller runs, and name it as `pki` in its host file")
            } else {
                format!("copy {folder} to {name} and start there: drover-agent serve --listen ADDRESS:PORT --tls FOLDER")
            });
        }
        PkiCommand::Show => print(&pki_show(dir).map_err(failure)?, context),
    }
    Ok(ExitStatus::Ok)
}

fn print(certificates: &[CertificateInfo], context: &Context) {
    let text: String = certificates.iter().map(|certificate| format!("{certificate}\n")).collect();
    let _ = context.screen.out(&drover_report::printable_lines(&text));
}

fn failure(error: PkiError) -> Failure {
    Failure::new(ExitStatus::Usage, chain(&error))
}
