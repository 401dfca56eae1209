//! Kernel and CPU count as axes: made, proven, and no number where the proof fails.

use crate::harness::{Lab, NEW, OLD, kernel};

/// A short job that prints a number.
const MATRIX: &str = r#"
version: 1
name: machines
axes: { kernel: [KERNELS], cpus: [1, 2] }
exclude: [EXCLUDE]
roles:
  job:
    run: [/bin/sh, -c, "read a release b < /proc/version; echo rate 7"]
    measure: { regex: 'rate (?<rate>[0-9]+)' }
metrics:
  rate: { unit: 1/s, better: higher, primary: true }
order: declared
timeout: 3m
table: { rows: [kernel], cols: [cpus] }
"#;

fn matrix(kernels: &str, exclude: &str) -> String {
    MATRIX.replace("KERNELS", kernels).replace("EXCLUDE", exclude)
}

/// The image of a kernel with a command line that it does not boot with.
fn deaf() -> String {
    let image = kernel(NEW).image;
    format!(
        "kernels: {{ deaf: {{ image: {}, cmdline: rdinit=/nonsense root=/dev/nonsense }} }}\n",
        image.display()
    )
}

#[test]
fn expect_each_cell_on_its_kernel_and_cpus_and_the_console_where_a_kernel_does_not_boot() {
    let lab = Lab::new(&format!("kernel: {OLD}, files: [/bin/sh]"), &deaf());
    let exclude = r#"{ when: kernel == "deaf" and cpus == "2", because: once is enough }"#;
    lab.write("m.yaml", &matrix(&format!("{OLD}, {NEW}, deaf, none-such"), exclude));
    let ran = lab.run(&["run", "m.yaml"]);
    assert_eq!(ran.status, 3, "{}\n{}", ran.stdout, ran.stderr);
    let attempts = lab.report()["attempts"].as_array().cloned().unwrap();
    let cells: Vec<(String, u64)> =
        [OLD, NEW].into_iter().flat_map(|k| [(k.to_owned(), 1), (k.to_owned(), 2)]).collect();
    for (place, (label, cpus)) in cells.iter().enumerate() {
        let attempt = attempts.iter().find(|attempt| attempt["cell"] == place).unwrap();
        assert!(["ok", "suspect"].contains(&attempt["outcome"].as_str().unwrap()), "{attempt}");
        let path = lab.find(&format!("c{place}r1a1/machine.vm1.json"));
        let machine: serde_json::Value =
            serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        assert_eq!(
            (machine["kernel"].as_str(), machine["accelerator"].as_str()),
            (Some(&**label), Some("tcg"))
        );
        assert_eq!(machine["found"]["release"].as_str(), Some(&*kernel(label).release));
        assert_eq!(machine["found"]["cpus"].as_array().map(|cpus| cpus.len() as u64), Some(*cpus));
        assert_eq!(machine["found"]["boot_id"], attempt["hosts"][0]["boot_id"]);
    }
    let deaf = attempts.iter().find(|attempt| attempt["cell"] == 4).unwrap();
    assert_eq!((deaf["outcome"].as_str(), deaf["cause"].as_str()), (Some("missing"), Some("wrong-kernel")));
    let detail = deaf["detail"].as_str().unwrap();
    let words = ["kernel `deaf` does not boot", "Cannot open root device", "guest-reset", "mount_root"];
    assert!(words.iter().all(|words| detail.contains(words)), "{detail}");
    for unknown in attempts.iter().filter(|attempt| attempt["cell"].as_u64() > Some(5)) {
        assert_eq!(unknown["cause"], "wrong-kernel", "{unknown}");
    }
    assert!(ran.stdout.contains("qemu-tcg"), "{}", ran.stdout);
}

#[test]
fn expect_no_number_when_another_kernel_or_fewer_cpus_come_up_than_were_asked_for() {
    // Whatever is asked for, it boots this kernel with one CPU.
    let image = kernel(NEW).image;
    let lab = Lab::disobedient(
        &format!("kernel: {OLD}, files: [/bin/sh]"),
        &format!("-kernel) arg={} ;; -smp) arg=1 ;;", image.display()),
    );
    let exclude = r#"{ when: kernel == "OLD" and cpus == "2", because: once is enough }"#.replace("OLD", OLD);
    lab.write("m.yaml", &matrix(&format!("{NEW}, {OLD}"), &exclude));
    let ran = lab.run(&["run", "m.yaml"]);
    assert_eq!(ran.status, 3, "{}\n{}", ran.stdout, ran.stderr);
    let verdicts = lab.verdicts();
    let causes: Vec<&str> = verdicts.iter().map(|(_, _, cause)| cause.as_str()).collect();
    assert_eq!(causes[1..], ["wrong-cpus", "wrong-kernel"], "{verdicts:?}");
    assert!(["ok", "suspect"].contains(&verdicts[0].1.as_str()), "{verdicts:?}");
}

#[test]
fn expect_no_number_when_as_many_cpus_are_arranged_in_another_way() {
    // Two CPUs become threads of one core, four are spread over two nodes.
    let node = |name: &str, cpus: &str| {
        format!("-object memory-backend-ram,id={name},size=256M -numa node,memdev={name},cpus={cpus}")
    };
    let cases = format!(
        "-cpu) arg=max,vendor=GenuineIntel ;; -smp) case $arg in 2,*) arg=2,threads=2 ;; 4,*) args+=(4 {} {}); last=; continue ;; \
         esac ;;",
        node("a", "0-1"),
        node("b", "2-3")
    );
    let lab = Lab::disobedient(&format!("kernel: {NEW}, files: [/bin/sh]"), &cases);
    let matrix = matrix(NEW, "").replace("exclude: []\n", "").replace("cpus: [1, 2]", "cpus: [1, 2, 4]");
    lab.write("m.yaml", &matrix);
    let ran = lab.run(&["run", "m.yaml"]);
    assert_eq!(ran.status, 3, "{}\n{}", ran.stdout, ran.stderr);
    let verdicts = lab.verdicts();
    let causes: Vec<&str> = verdicts.iter().map(|(_, _, cause)| cause.as_str()).collect();
    assert_eq!(causes[1..], ["wrong-cpus", "wrong-cpus"], "{verdicts:?}");
    assert!(["ok", "suspect"].contains(&verdicts[0].1.as_str()), "{verdicts:?}");
    let details = lab.report()["attempts"].to_string();
    for words in ["SMT is on, asked for was off", "the number of NUMA nodes is 2, asked for was 1"] {
        assert!(details.contains(words), "no `{words}` in {details}");
    }
}
