//! Kernels out of the package archive, and by hand.

use std::fs;

use drover_vm::{AptOptions, Catalogue, CatalogueError, FetchError, Modules, NewKernel};

use crate::harness::{NEW, OLD, catalogue};

#[test]
fn expect_image_modules_and_release_when_kernels_are_fetched() {
    for what in [OLD, NEW] {
        let kernel = catalogue().fetch(what, None, &AptOptions::default()).unwrap();
        let modules = kernel.modules.clone().unwrap();
        assert!(modules.ends_with(&kernel.release), "{kernel:?}");
        assert!(kernel.package.unwrap().contains(&kernel.release));
        assert_eq!(kernel.label, kernel.release);
        assert_eq!(catalogue().get(&kernel.label).unwrap().hash, kernel.hash);
        let order =
            Modules::read(&modules).unwrap().load_order(&["virtio_net"], &["virtio_console"]).unwrap();
        let names: Vec<&str> = order.iter().map(|module| module.name.as_str()).collect();
        let place = |name: &str| names.iter().position(|other| *other == name).unwrap();
        // One that needs another in all of Debian's kernels.
        assert!(place("net_failover") < place("virtio_net"), "{names:?}");
        assert!(place("failover") < place("net_failover"), "{names:?}");
        assert!(order.iter().all(|module| module.bytes.starts_with(b"\x7fELF")));
        let hash = blake3::hash(&fs::read(&kernel.image).unwrap()).to_hex().to_string();
        assert_eq!(kernel.hash, hash);
    }
    assert!(catalogue().list().unwrap().len() >= 2);
}

#[test]
fn expect_all_its_parts_when_a_kernel_is_split_over_packages_of_another_suite() {
    let dir = tempfile::tempdir().unwrap();
    let key = "/usr/share/keyrings/debian-archive-keyring.gpg";
    let sources = format!("deb [signed-by={key}] http://deb.debian.org/debian trixie-backports main");
    let options = AptOptions { sources: Some(sources) };
    let mine = Catalogue::new(dir.path().join("kernels"));
    let kernel = mine.fetch("debian:linux-image-cloud-amd64", Some("newest"), &options).unwrap();
    println!("{} of {:?}", kernel.release, kernel.package);
    assert_eq!(mine.get("newest").unwrap().package_version, kernel.package_version);
    let modules = Modules::read(&kernel.modules.unwrap()).unwrap();
    assert!(modules.is_built_in("virtio_pci") || modules.load_order(&["virtio_pci"], &[]).is_ok());
    assert!(kernel.package_version.is_some());
}

#[test]
fn expect_the_reason_when_a_kernel_cannot_be_fetched() {
    let dir = tempfile::tempdir().unwrap();
    let empty = Catalogue::new(dir.path().join("kernels"));
    let refused = |what: &str, sources: Option<&str>| {
        let options = AptOptions { sources: sources.map(str::to_owned) };
        empty.fetch(what, None, &options).unwrap_err()
    };
    for what in ["linux-image-amd64", "debian:", "debian:-o", "debian:a b"] {
        assert!(matches!(refused(what, None), FetchError::Source(_)), "{what}");
    }
    let nowhere = Some("deb [trusted=yes] http://127.0.0.1:9 nowhere main");
    let error = refused("debian:linux-image-amd64", nowhere);
    assert!(matches!(error, FetchError::Network { .. }), "{error}");
    let unknown = refused("debian:linux-image-clowd-amd64", None);
    assert!(unknown.to_string().contains("did you mean `linux-image-cloud-amd64`"), "{unknown}");
    assert_eq!(empty.list().unwrap(), []);
}

#[test]
fn expect_a_kernel_under_its_label_when_it_was_built_by_hand() {
    let fetched = catalogue().fetch(NEW, None, &AptOptions::default()).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let mine = Catalogue::new(dir.path().join("kernels"));
    let new = NewKernel {
        label: "../test10-pre5+P2 /ä".to_owned(),
        image: fetched.image.clone(),
        modules: fetched.modules.clone(),
        initrd: None,
        cmdline: "mitigations=off".to_owned(),
    };
    let kernel = mine.add(&new).unwrap();
    assert_eq!(
        (kernel.release.as_str(), kernel.cmdline.as_str()),
        (fetched.release.as_str(), "mitigations=off")
    );
    assert_eq!(mine.list().unwrap(), [kernel]);
    // It stays within the catalogue.
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);

    assert!(matches!(mine.add(&new), Err(CatalogueError::Taken { .. })));
    let error = mine.get("../test10-pre5+P1 /ä").unwrap_err();
    assert!(error.to_string().contains("did you mean `../test10-pre5+P2 /ä`"), "{error}");
    let other = NewKernel { modules: Some(dir.path().join("6.6.6")), label: "b".to_owned(), ..new.clone() };
    assert!(matches!(mine.add(&other), Err(CatalogueError::OtherModules { .. })));
    let torn = dir.path().join("torn");
    fs::write(&torn, &fs::read(&fetched.image).unwrap()[..1 << 20]).unwrap();
    let torn = NewKernel { image: torn, modules: None, label: "c".to_owned(), ..new.clone() };
    assert!(matches!(mine.add(&torn), Err(CatalogueError::Image { .. })));
    assert!(matches!(
        mine.add(&NewKernel { label: "a\n".to_owned(), ..new.clone() }),
        Err(CatalogueError::Label(_))
    ));

    mine.remove(&new.label).unwrap();
    assert_eq!(mine.list().unwrap(), []);
    assert!(matches!(mine.remove(&new.label), Err(CatalogueError::Unknown { .. })));
    assert!(fetched.image.exists());
}
