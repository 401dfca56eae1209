//! tmp
use crate::harness::*;
use drover_vm::*;
use std::path::PathBuf;
#[tokio::test]
async fn tmp_rt() {
    let lab = Lab::new("debian:linux-image-6.12-rt-amd64");
    for cpus in [1, 2, 4] {
        let vm = lab
            .boot(&VmSpec {
                memory_mib: 512,
                dir: lab.dir.path().join(format!("vm{cpus}")),
                ..lab.spec(cpus)
            })
            .await;
        println!("{:?}", identity(&vm).await);
        if cpus == 2 {
            let _s = tell(&vm, "crash").await;
            let e = vm.ended().await;
            println!("{e:?} {}", vm.console().tail(1500));
        }
    }
}
#[tokio::test]
async fn tmp_big() {
    let lab = Lab::new(NEW);
    for (init, program) in [
        (std::env::var("STATIC_INIT").unwrap(), std::env::var("STATIC_PAYLOAD").unwrap()),
        (env!("CARGO_BIN_EXE_drover-init").to_owned(), std::env::var("AGENT").unwrap()),
    ] {
        let t = std::time::Instant::now();
        let agent = program.contains("agent");
        let bytes = build(&InitramfsSpec {
            init: PathBuf::from(init),
            program: PathBuf::from(&program),
            args: if agent {
                ["agent", "serve", "--dir", "/run/drover"].map(str::to_owned).to_vec()
            } else {
                vec!["/run/payload.sock".to_owned()]
            },
            socket: if agent { "/run/drover/agent.sock".into() } else { "/run/payload.sock".into() },
            modules: lab.kernel.modules.clone(),
            more_modules: vec![],
            files: vec![],
        })
        .unwrap();
        println!("{} bytes in {:?}", bytes.len(), t.elapsed());
        let initrd = lab.dir.path().join("i");
        std::fs::write(&initrd, bytes).unwrap();
        let t = std::time::Instant::now();
        let vm = Vm::start(&VmSpec { initrd: Some(initrd), ..lab.bare() }).await.unwrap();
        match vm.booted(LIMIT).await {
            Ok(b) => println!("{program}: {b} {:?}", t.elapsed()),
            Err(e) => println!("{e} {}", e.console()),
        }
    }
}
#[test]
fn tmp_sources() {
    let dir = tempfile::tempdir().unwrap();
    let c = Catalogue::new(dir.path().join("k"));
    for (suite, what) in [
        ("bookworm-backports", "debian:linux-image-cloud-amd64"),
        ("trixie", "debian:linux-image-6.12.y-cloud-amd64"),
        ("trixie-backports", "debian:linux-image-cloud-amd64"),
    ] {
        let sources = format!(
            "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian {suite} main"
        );
        let t = std::time::Instant::now();
        match c.fetch(what, Some(suite), &AptOptions { sources: Some(sources) }) {
            Ok(k) => println!("{suite}: {} {:?} {:?} {:?}", k.release, k.package, k.build_id, t.elapsed()),
            Err(e) => println!("{suite}: {e}"),
        }
    }
}
