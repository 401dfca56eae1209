//! The host file.

use std::{net::IpAddr, time::Duration};

use drover_matrix::{
    BootKernel, BootMethod, CpuWord, CpusBy, HostEntry, HostFile, HostLimits, KernelEntry, KernelSource,
    Reach, Source, SshReach, TlsReach, VmAccelerator, VmReach, parse_hosts,
};
use drover_model::Name;
use proptest::{collection::vec, prelude::*, sample::Index};

const GOOD: &str = r#"
version: 1
defaults:
  user: perf
  identity: ~/.ssh/id_ed25519
  labels: [lab]
  limits: { free_disk: 1GiB, output: 2GiB }
  pki: ./certificates
hosts:
  web1:
    ssh: root@10.0.0.1:2222
    labels: [server, smp8]
    address: 10.1.0.1
    dir: /var/tmp/drover-x/
    limits: { output: 10MiB }
  web2:
    ssh: "[fd00::2]"
    user: other
    port: 22
    identity: ~/.ssh/lab
    jump: gate@gate.example.org:2200
    known_hosts: ~/lab/known_hosts
    config: ./ssh_config
    labels: lab
    sysrq: true
  big:
    tls: 10.0.0.9:7411
  here: { local: true, labels: [client] }
  small: { vm: { kernel: stable } }
  large:
    vm:
      kernel: 6.10
      cmdline: mitigations=off quiet
      memory: 2GiB
      cpus: 8
      sockets: 2
      threads: 2
      accelerator: kvm
      machine: q35
      cpu: host,-x2apic
      qemu: ~/qemu/qemu-system-x86_64
      files: [/usr/sbin/apache2, /bin/sh]
      boot: 30s
    limits: { output: 10MiB }
kernels:
  stable: 6.12.57-cloud-amd64
  test10-pre5+P2: { image: ~/linux/bzImage, modules: ~/linux/lib/modules/2.4.0, initrd: /boot/initrd, cmdline: maxcpus=2 }
  quiet: { catalogue: 6.1, cmdline: quiet }
"#;

fn good() -> HostFile {
    parse_hosts(&Source::new("hosts.yaml", GOOD)).unwrap_or_else(|found| panic!("{found}"))
}

fn names(list: &[&str]) -> Vec<Name> {
    list.iter().map(|name| name.parse().unwrap()).collect()
}

#[test]
fn expect_every_key_where_it_belongs() {
    let some = |text: &str| Some(text.to_owned());
    let file = good();
    let [web1, web2, big, here, ..] = file.hosts.as_slice() else { panic!("{file:?}") };
    let ssh = SshReach {
        host: "10.0.0.1".into(),
        user: some("root"),
        port: Some(2222),
        identity: some("~/.ssh/id_ed25519"),
        jump: None,
        known_hosts: None,
        config: None,
    };
    assert_eq!((web1.name.as_str(), &web1.reach), ("web1", &Reach::Ssh(ssh)));
    assert_eq!(web1.labels, names(&["lab", "server", "smp8"]));
    assert_eq!(web1.address, Some(IpAddr::from([10, 1, 0, 1])));
    assert_eq!(web1.dir.as_deref(), Some("/var/tmp/drover-x"));
    assert!(!web1.sysrq && file.hosts[1].sysrq);
    assert_eq!(web1.limits, HostLimits { free_disk: 1 << 30, output: 10 << 20, files: 64 << 20 });
    let ssh = SshReach {
        host: "fd00::2".into(),
        user: some("other"),
        port: Some(22),
        identity: some("~/.ssh/lab"),
        jump: some("gate@gate.example.org:2200"),
        known_hosts: some("~/lab/known_hosts"),
        config: some("./ssh_config"),
    };
    assert_eq!(web2.reach, Reach::Ssh(ssh));
    assert_eq!((web2.labels.clone(), web2.address, web2.dir.clone()), (names(&["lab"]), None, None));
    let tls = TlsReach { address: "10.0.0.9:7411".into(), pki: some("./certificates") };
    assert_eq!(big.reach, Reach::Tls(tls));
    assert_eq!((&here.reach, here.labels.clone()), (&Reach::Local, names(&["lab", "client"])));
}

#[test]
fn expect_virtual_machines_and_kernels_as_written() {
    let some = |text: &str| Some(text.to_owned());
    let file = good();
    let small = VmReach {
        kernel: "stable".into(),
        cmdline: String::new(),
        memory_mib: 512,
        cpus: 1,
        sockets: 1,
        threads: 1,
        accelerator: VmAccelerator::Auto,
        machine: None,
        cpu: None,
        qemu: None,
        files: Vec::new(),
        boot: Duration::from_secs(120),
    };
    let large = VmReach {
        kernel: "6.10".into(),
        cmdline: "mitigations=off quiet".into(),
        memory_mib: 2048,
        cpus: 8,
        sockets: 2,
        threads: 2,
        accelerator: VmAccelerator::Kvm,
        machine: some("q35"),
        cpu: some("host,-x2apic"),
        qemu: some("~/qemu/qemu-system-x86_64"),
        files: ["/usr/sbin/apache2", "/bin/sh"].map(str::to_owned).into(),
        boot: Duration::from_secs(30),
    };
    for (place, expected, output) in [(4, small, 2 << 30), (5, large, 10 << 20)] {
        assert_eq!(file.hosts[place].reach, Reach::Vm(Box::new(expected)));
        assert_eq!(file.hosts[place].limits, HostLimits { free_disk: 1 << 30, output, files: 64 << 20 });
    }
    let entry = |label: &str, source, cmdline: &str| KernelEntry {
        label: label.to_owned(),
        source,
        cmdline: cmdline.to_owned(),
    };
    let files = KernelSource::Files {
        image: "~/linux/bzImage".into(),
        modules: some("~/linux/lib/modules/2.4.0"),
        initrd: some("/boot/initrd"),
    };
    assert_eq!(
        file.kernels,
        [
            entry("stable", KernelSource::Catalogue("6.12.57-cloud-amd64".into()), ""),
            entry("test10-pre5+P2", files, "maxcpus=2"),
            entry("quiet", KernelSource::Catalogue("6.1".into()), "quiet"),
        ]
    );
    let alone = "version: 1\nhosts: { v: { vm: { kernel: stable } } }";
    let alone = parse_hosts(&Source::new("hosts.yaml", alone)).unwrap();
    assert_eq!(alone.hosts[0].limits.free_disk, 16 << 20, "a virtual machine has little room");
}

#[test]
fn expect_how_a_host_boots_and_gets_its_cpus_when_a_file_says_so() {
    let text = r#"
version: 1
defaults: { boot: { by: kexec, kernels: { mine: { image: /boot/mine, cmdline: quiet, release: 6.18.0-mine } } } }
hosts:
  a:
    ssh: a
    boot:
      by: grub
      within: 90s
      times: 3
      reboot: systemctl reboot
      folder: /boot/grub2
      kernels:
        "6.1": { entry: "Advanced>Linux 6.1.0", release: 6.1.0-50-amd64 }
        6.12.57-amd64: Linux 6.12
    cpus: { by: boot, word: maxcpus }
  b: { tls: "b:1", cpus: { by: hotplug } }
  c: { local: true }
  d: { vm: { kernel: x } }
  e: { ssh: e, boot: { by: command, command: "next {{ kernel }} '{{ words }}'", kernels: { 6.1.0: {}, x: two } } }
"#;
    let file = parse_hosts(&Source::new("h.yaml", text)).unwrap_or_else(|found| panic!("{found}"));
    let boot = |place: usize| file.hosts[place].boot.clone();
    let grub = boot(0).unwrap();
    assert_eq!(grub.by, BootMethod::Grub { folder: Some("/boot/grub2".into()) });
    assert_eq!((grub.within, grub.times), (Duration::from_secs(90), 3));
    assert_eq!(grub.reboot, ["systemctl", "reboot"]);
    let entry = |label: &str, entry: &str, release: &str| BootKernel {
        label: label.into(),
        entry: entry.into(),
        initrd: None,
        cmdline: None,
        release: release.into(),
    };
    let kernels = [
        entry("6.1", "Advanced>Linux 6.1.0", "6.1.0-50-amd64"),
        entry("6.12.57-amd64", "Linux 6.12", "6.12.57-amd64"),
    ];
    assert_eq!(grub.kernels, kernels);
    assert_eq!(file.hosts[0].cpus, Some(CpusBy::Boot(CpuWord::MaxCpus)));
    let usual = boot(1).unwrap();
    let mine = BootKernel { cmdline: Some("quiet".into()), ..entry("mine", "/boot/mine", "6.18.0-mine") };
    assert_eq!((usual.by.clone(), &usual.kernels), (BootMethod::Kexec, &vec![mine]));
    assert_eq!((usual.within, usual.times), (Duration::from_secs(300), 100));
    assert_eq!(file.hosts[1].cpus, Some(CpusBy::Hotplug));
    assert_eq!((boot(2), boot(3)), (None, None), "neither this machine nor a virtual one");
    let command = boot(4).unwrap();
    assert_eq!(command.kernels, [entry("6.1.0", "6.1.0", "6.1.0"), entry("x", "two", "x")]);
    let boots: Vec<bool> = file.hosts.iter().map(HostEntry::boots_for_cpus).collect();
    assert_eq!(boots, [true, false, false, true, false]);
}

#[test]
fn expect_hosts_by_name_or_label() {
    let file = good();
    assert_eq!(file.matching(&[]), [0, 1, 2, 3, 4, 5]);
    assert_eq!(file.matching(&names(&["server"])), [0]);
    assert_eq!(file.matching(&names(&["client", "web2"])), [1, 3]);
    assert_eq!(file.matching(&names(&["lab"])), [0, 1, 2, 3, 4, 5]);
    assert_eq!(file.matching(&names(&["nothing"])), [0_usize; 0]);
}

#[test]
fn expect_this_machine_alone_when_there_is_no_file() {
    let file = HostFile::local();
    assert_eq!(file.hosts.len(), 1);
    assert_eq!((file.hosts[0].name.as_str(), &file.hosts[0].reach), ("local", &Reach::Local));
    // Nobody has asked for any room on it.
    assert_eq!(file.hosts[0].limits, HostLimits { free_disk: 0, ..HostLimits::default() });
}

#[test]
fn expect_a_bound_on_the_size_of_a_file() {
    let found = parse_hosts(&Source::new("h.yaml", "#\n".repeat(1 << 20))).unwrap_err().to_string();
    assert!(found.starts_with("h.yaml:1:1: the file has 2097152 bytes, 1048576 are allowed"), "{found}");
    assert!(found.contains("is this a host file?"), "{found}");
}

#[test]
fn expect_ten_thousand_hosts_to_be_read() {
    let hosts: String = (0..10_000).map(|i| format!("  h{i}: {{ ssh: host{i}, labels: [lab] }}\n")).collect();
    let file = parse_hosts(&Source::new("h.yaml", format!("version: 1\nhosts:\n{hosts}")));
    assert_eq!(file.unwrap_or_else(|found| panic!("{found}")).hosts.len(), 10_000);
}

proptest! {
    #[test]
    fn damaged_host_files_never_panic(
        damages in vec((any::<Index>(), 0_usize..20, "[a-z0-9:@\\[\\]{}#&*!,~./\"' \\n-]{0,6}|\\PC{1,3}"), 1..6),
    ) {
        let mut text = GOOD.to_owned();
        for (place, length, new) in damages {
            let boundary = |at: usize, text: &str| (0..=at.min(text.len())).rev().find(|i| text.is_char_boundary(*i));
            let start = boundary(place.index(text.len() + 1), &text).unwrap_or(0);
            let end = boundary(start + length, &text).unwrap_or(0).max(start);
            text.replace_range(start..end, &new);
        }
        match parse_hosts(&Source::new("x", text)) {
            Ok(file) => {
                let mut names: Vec<&Name> = file.hosts.iter().map(|host| &host.name).collect();
                names.sort();
                names.dedup();
                prop_assert_eq!(names.len(), file.hosts.len());
                let labels = file.hosts.iter().flat_map(|host| &host.labels);
                prop_assert!(labels.into_iter().all(|label| !names.contains(&label)));
            }
            Err(found) => {
                for one in found.iter() {
                    prop_assert!(!one.message().is_empty() && !one.remedy().is_empty());
                }
            }
        }
    }
}
