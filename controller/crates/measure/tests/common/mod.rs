//! The outputs in `testdata` and the parser of each, shared by the tests.

use drover_measure::{Input, ParseError, parse};
use drover_model::{Measurement, ParserSpec, Tool};

/// A captured output.
pub struct Case {
    /// Its file, or that of its standard error if it wrote nothing else.
    pub name: &'static str,
    pub tool: Tool,
    pub stdout: &'static [u8],
    pub stderr: &'static [u8],
}

impl Case {
    pub fn parse(&self) -> Result<Measurement, ParseError> {
        self.parse_changed(self.stdout)
    }

    /// The same with another standard output.
    pub fn parse_changed(&self, stdout: &[u8]) -> Result<Measurement, ParseError> {
        parse(&ParserSpec::Tool(self.tool), &Input { stdout, stderr: self.stderr, output_cut: false })
    }
}

macro_rules! data {
    ($file:literal) => {
        include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/", $file)).as_slice()
    };
}

macro_rules! cases {
    (
        ok { $($tool:ident [$($file:literal)*])* }
        both { $($btool:ident $out:literal $err:literal,)* }
        err { $($etool:ident $efile:literal,)* }
    ) => {
        /// Every output in `testdata`.
        pub const CASES: &[Case] = &[
            $($(Case { name: $file, tool: Tool::$tool, stdout: data!($file), stderr: b"" },)*)*
            $(Case { name: $out, tool: Tool::$btool, stdout: data!($out), stderr: data!($err) },)*
            $(Case { name: $efile, tool: Tool::$etool, stdout: b"", stderr: data!($efile) },)*
        ];
    };
}

cases! {
    ok {
    Ab ["ab_500.txt" "ab_ok.txt" "ab_overflow.txt" "ab_rstr.txt" "ab-2.0.40-output.txt" "ab_length_changes.txt"
        "ab_redirect.txt" "ab_keepalive.txt" "ab_one.txt"]
    Httperf ["httperf_ok.txt" "httperf_timo.txt" "httperf_refused.txt" "httperf_calls.txt" "httperf_mix.txt"
        "httperf_reset.txt" "httperf_fd_unavail.txt" "httperf_500.txt"]
    Wrk ["wrk_ok.txt" "wrk_500.txt" "wrk_reset.txt" "wrk_timeout.txt" "wrk_nothing.txt" "wrk_nolatency.txt"]
    Wrk2 ["wrk2.txt" "wrk2_stalled.txt"]
    Oha ["oha_ok.json" "oha_mix.json" "oha_ref.json"]
    H2load ["h2load_ok.txt" "h2load_e500.txt" "h2load_refused.txt" "h2load_mix.txt" "h2load_reset.txt"
        "h2load_timed.txt"]
    Hey ["hey_ok.txt" "hey_mix.txt" "hey_500.txt" "hey_refused.txt" "hey_timeout.txt" "hey_reset.txt"]
    Vegeta ["vegeta.json" "vegeta_refused.json" "vegeta.txt"]
    Fortio ["fortio.json" "fortio_refused.json"]
    Iperf3 ["iperf3_ok.json" "iperf3_ref.json" "iperf3_udp.json" "iperf3_reverse.json"]
    Fio ["fio.json" "fio_two_groups.json" "fio_grouped.json"]
    Sysbench ["sysbench_cpu.txt" "sysbench_memory.txt" "sysbench_threads.txt" "sysbench_fileio.txt"
        "sysbench_oltp.txt" "sysbench_refused.txt"]
    Pgbench ["pgbench.txt" "pgbench_counted.txt" "pgbench_paced.txt" "pgbench_select.txt"]
    RedisBenchmark ["redis_csv.txt" "redis_many.txt"]
    Memtier ["memtier.txt" "memtier.json"]
    StressNg ["sng.yaml" "stress_ng_one.yaml"]
    Workload ["workload_client.json" "workload_client_wait.json" "workload_client_calls.json" "workload_client_rate.json" "workload_client_fd_limit.json" "workload_client_refused.json" "workload_server.json"
        "workload_server_lost.json"]
    }
    both {
    Ab "ab_refused.txt" "ab_refused.err",
    Ab "ab_reset_noflag.txt" "ab_reset_noflag.err",
    Pgbench "pgbench_aborted.txt" "pgbench_aborted.err",
    Fio "fio_error.json" "fio_error.err",
    }
    err {
    Wrk "wrk_refused.err",
    Pgbench "pgbench_refused.err",
    RedisBenchmark "redis_refused.err",
    }
}
