//! Kernels that cannot be booted, or are not what their label says: no number, the reason, and the run goes on.

use std::{fs, path::Path};

use drover_vm::NewKernel;

use crate::harness::{Lab, NEW, OLD, kernel};

const MATRIX: &str = r#"
version: 1
name: refused
axes: { kernel: [torn, arm64, elf, text, cut, swapped, forged, good] }
roles:
  job:
    run: [/bin/sh, -c, "read a release b < /proc/version; echo rate 7"]
    measure: { regex: 'rate (?<rate>[0-9]+)' }
metrics:
  rate: { unit: 1/s, better: higher, primary: true }
order: declared
timeout: 3m
"#;

/// Files of the host file that are no kernels for this machine.
fn write_files(lab: &Lab) {
    let image = fs::read(kernel(NEW).image).unwrap();
    // As Debian's images for arm64 begin.
    let mut arm64 = b"MZ".to_vec();
    arm64.resize(image.len(), 0);
    arm64[0x38..0x3c].copy_from_slice(b"ARM\x64");
    let mut elf = fs::read(std::env::current_exe().unwrap()).unwrap();
    elf.truncate(1 << 20);
    // `EM_AARCH64`, where ELF files name the machine.
    elf[18..20].copy_from_slice(&183_u16.to_le_bytes());
    let files: [(&str, &[u8]); 4] =
        [("torn", &image[..image.len() / 2]), ("arm64", &arm64), ("elf", &elf), ("text", b"no kernel\n")];
    for (name, bytes) in files {
        fs::write(lab.path().join(name), bytes).unwrap();
    }
}

/// Takes a kernel up as `label`, from a copy of its image in the place; the copy.
fn take_up(lab: &Lab, of: &str, label: &str) -> std::path::PathBuf {
    let kernel = kernel(of);
    let image = lab.path().join(format!("{label}.image"));
    fs::copy(&kernel.image, &image).unwrap();
    let new = NewKernel {
        label: label.to_owned(),
        image: image.clone(),
        modules: kernel.modules,
        initrd: None,
        cmdline: String::new(),
    };
    lab.catalogue().add(&new).unwrap();
    image
}

/// Changes the build id that the catalogue has for a kernel.
fn forge(catalogue: &Path, label: &str) {
    let record = catalogue.join(label).join("kernel.json");
    let mut kernel: serde_json::Value = serde_json::from_slice(&fs::read(&record).unwrap()).unwrap();
    assert!(kernel["build_id"].is_string(), "{kernel}");
    kernel["build_id"] = "0123456789abcdef0123456789abcdef01234567".into();
    fs::write(&record, serde_json::to_vec(&kernel).unwrap()).unwrap();
}

#[test]
fn expect_no_number_and_the_run_to_go_on_when_images_are_torn_foreign_or_not_what_their_label_says() {
    let files = ["torn", "arm64", "elf", "text"].map(|name| format!("{name}: {{ image: {name} }}"));
    let kernels = format!("kernels: {{ {} }}\n", files.join(", "));
    let lab = Lab::new("kernel: good, files: [/bin/sh]", &kernels);
    write_files(&lab);
    take_up(&lab, NEW, "good");
    let image = take_up(&lab, NEW, "cut");
    fs::write(&image, &fs::read(&image).unwrap()[..6 << 20]).unwrap();
    let image = take_up(&lab, OLD, "swapped");
    fs::copy(kernel(NEW).image, image).unwrap();
    take_up(&lab, NEW, "forged");
    forge(lab.catalogue().root(), "forged");
    lab.write("m.yaml", MATRIX);
    let ran = lab.run(&["run", "m.yaml"]);
    assert_eq!(ran.status, 3, "{}\n{}", ran.stdout, ran.stderr);
    let mut attempts = lab.report()["attempts"].as_array().cloned().unwrap();
    attempts.sort_by_key(|attempt| attempt["cell"].as_u64());
    let good = attempts.pop().unwrap();
    assert!(["ok", "suspect"].contains(&good["outcome"].as_str().unwrap()), "{good}");
    let (old, new) = (kernel(OLD).release, kernel(NEW).release);
    let words = [
        "the image is cut off".to_owned(),
        "a kernel image for arm64".to_owned(),
        "an ELF file for another architecture (machine 183)".to_owned(),
        "something else, and no x86 kernel image".to_owned(),
        "kernel `cut`".to_owned(),
        format!("before the trial: release is `{new}`, asked for was `{old}`"),
        "asked for was `0123456789abcdef0123456789abcdef01234567`".to_owned(),
    ];
    assert_eq!(attempts.len(), words.len(), "{attempts:?}");
    for (attempt, words) in attempts.iter().zip(words) {
        let verdict = (attempt["outcome"].as_str(), attempt["cause"].as_str());
        assert_eq!(verdict, (Some("missing"), Some("wrong-kernel")), "{attempt}");
        let detail = attempt["detail"].as_str().unwrap();
        assert!(detail.contains(&words), "no `{words}` in {detail}");
        println!("{detail}");
    }
}
