//! Kubernetes: an Indexed Job, a shard an index (stable since 1.24; `backoffLimitPerIndex` since 1.33). Checked against the
//! published schema by a test (`crates/cli/tests/scheduler/kubernetes.rs`), never run by us. Indices cannot be left out: a shard that is done ends at once.

use super::{Engine, Submission, literal};

/// What every pod of ours has, so that those with real packets keep away from the others.
const LABEL: &str = "app.kubernetes.io/name: headstart";

/// The engine.
pub const ENGINE: Engine = Engine {
    name: "kubernetes",
    what: "the manifest of an Indexed Job (never run)",
    file: "campaign.yaml",
    // Each submission is a Job of its own: `apply` would change nothing where one is there, and Jobs cannot be changed.
    submit: &["kubectl", "create", "-f"],
    text,
};

fn text(job: &Submission) -> String {
    let [program, plan, out] = [&job.program, &job.plan, &job.out].map(|path| literal(&path.to_string_lossy()));
    let context = if job.namespaces {
        "          securityContext:\n            capabilities: { add: [SYS_ADMIN, NET_ADMIN, NET_RAW] }\n            \
         seccompProfile: { type: Unconfined }\n"
    } else {
        "          securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: [ALL] } }\n"
    };
    let deadline = job.minutes().map_or_else(String::new, |m| format!("      activeDeadlineSeconds: {}\n", m * 60));
    // Symmetric: neither comes to a node where another of ours is.
    let affinity = if job.quiet {
        format!(
            "      affinity:\n        podAntiAffinity:\n          requiredDuringSchedulingIgnoredDuringExecution:\n            \
             - labelSelector: {{ matchLabels: {{ {LABEL} }} }}\n              topologyKey: kubernetes.io/hostname\n"
        )
    } else {
        String::new()
    };
    // Credentials of a bucket are in the secret `headstart`, as variables.
    let secret = if crate::bucket::is_bucket(&job.out) {
        "          envFrom: [{ secretRef: { name: headstart } }]\n"
    } else {
        ""
    };
    let (of, cores) = (job.of, job.cores);
    format!(
        "# Not tested by the project. The claim `headstart` holds the plan and the results, at the same paths.\n\
         apiVersion: batch/v1\nkind: Job\nmetadata:\n  generateName: headstart-\nspec:\n  completionMode: Indexed\n  \
         completions: {of}\n  parallelism: {parallel}\n  backoffLimitPerIndex: 3\n  maxFailedIndexes: {of}\n  template:\n    \
         metadata:\n      labels: {{ {LABEL} }}\n    spec:\n      restartPolicy: Never\n      \
         terminationGracePeriodSeconds: 10\n{deadline}{affinity}      containers:\n        - name: work\n          \
         image: {image}\n          command: [{program}]\n          \
         args: [lab, work, --plan, {plan}, --shards, \"{of}\", --jobs, \"{cores}\", --out, {out}]\n          \
         resources: {{ requests: {{ cpu: \"{cores}\" }}, limits: {{ cpu: \"{cores}\" }} }}\n{context}{secret}          \
         volumeMounts: [{{ name: campaign, mountPath: {mount} }}]\n      \
         volumes: [{{ name: campaign, persistentVolumeClaim: {{ claimName: headstart }} }}]\n",
        parallel = of.min(100),
        image = literal(&job.image),
        mount = literal(&job.beside.parent().map_or_else(|| "/".into(), |parent| parent.to_string_lossy())),
    )
}
