//! Hosts with a resident agent, reached by mTLS.

use crate::harness::{Lab, wait_until};

const NOOP: &str = "version: 1\nname: noop\naxes: { n: [1, 2] }\nroles: { job: { run: [hostname] } }\nobserve: off\ntimeout: 20s\n";

/// Issues certificates and starts a resident agent on `h1`, which then is the only host of the lab's file.
fn resident(lab: &Lab) -> String {
    let pki = lab.path().join("pki");
    let pki = pki.to_str().unwrap();
    lab.run_bare(&["pki", "--dir", pki, "init"]).expect(0).says("keep it safe");
    lab.run_bare(&["pki", "--dir", pki, "issue", "h1"]).expect(0).says("agent h1");
    // The hosts have a /tmp of their own: certificates are copied, as one would.
    lab.on("h1", "mkdir -m 0700 /var/tmp/tls");
    for name in ["ca.pem", "cert.pem", "key.pem"] {
        let text = std::fs::read_to_string(format!("{pki}/agents/h1/{name}")).unwrap();
        lab.on("h1", &format!("umask 077; cat > /var/tmp/tls/{name} <<'END'\n{text}END\n"));
    }
    // Over ssh the agent's program gets there, as it would be copied.
    lab.run(&["hosts"]).expect(0);
    lab.on(
        "h1",
        "nohup setsid /var/tmp/drover-0/bin/drover-agent-* serve --dir /var/tmp/resident --listen 10.77.0.11:7411 \
         --tls /var/tmp/tls >/var/tmp/resident.log 2>&1 </dev/null &",
    );
    wait_until("the agent serves", || {
        lab.on("h1", "cat /var/tmp/resident/agent.log /var/tmp/resident.log").contains("serves")
    });
    let file = format!("version: 1\nhosts:\n  h1: {{ tls: 10.77.0.11:7411, pki: {pki} }}\n");
    std::fs::write(lab.hosts_file(), file).unwrap();
    lab.on("h1", "cat /var/tmp/resident/lock")
}

#[test]
fn expect_the_resident_agent_to_stay_when_runs_and_other_commands_have_used_it() {
    let lab = Lab::up(1);
    let pid = resident(&lab);
    let matrix = lab.write("noop.yaml", NOOP);
    for _ in 0..2 {
        lab.run(&["run", matrix.to_str().unwrap()]).expect(0);
        lab.run(&["hosts"]).expect(0).says("free");
        lab.run(&["doctor"]).says("ok    reach");
    }
    assert_eq!(lab.on("h1", "cat /var/tmp/resident/lock"), pid, "the same process all the time");
    assert_eq!(lab.verdicts(), vec![("ok".to_owned(), String::new()); 2]);
}

#[test]
fn expect_no_trial_when_the_certificate_is_of_another_authority() {
    let lab = Lab::up(1);
    resident(&lab);
    let other = lab.path().join("other");
    lab.run_bare(&["pki", "--dir", other.to_str().unwrap(), "init"]).expect(0);
    let file = std::fs::read_to_string(lab.hosts_file()).unwrap();
    let pki = lab.path().join("pki");
    std::fs::write(lab.hosts_file(), file.replace(pki.to_str().unwrap(), other.to_str().unwrap())).unwrap();
    let matrix = lab.write("noop.yaml", NOOP);
    lab.run(&["run", matrix.to_str().unwrap()]).expect(4).says("authority");
}
