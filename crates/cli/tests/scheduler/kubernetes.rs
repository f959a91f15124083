//! The manifest for Kubernetes against the schema that Kubernetes publishes (the OpenAPI document of its Go module), by kubeconform,
//! strictly: no field that the schema does not have. Both come by the Go module proxy, once, below `target/tmp`.

use super::golang::{Go, KEPT};
use super::scene::Campaign;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const CHECKER: &str = "github.com/yannh/kubeconform/cmd/kubeconform@v0.6.7";
const KUBERNETES: &str = "k8s.io/kubernetes@v1.33.0";
const JOB: &str = "io.k8s.api.batch.v1.Job";

/// The checker, and the schema of a Job with all that it is made of; says so where they cannot be had.
fn tools() -> Option<(PathBuf, PathBuf)> {
    let folder = Path::new(KEPT).join("kubernetes");
    let (checker, schema) = (folder.join("kubeconform"), folder.join("job.json"));
    if !(checker.exists() && schema.exists()) {
        fs::create_dir_all(&folder).unwrap();
        if let Err(why) = fetch(&Go::new()?, &checker, &schema) {
            println!("skipped: kubeconform or the schema cannot be had by the Go module proxy: {why}");
            return None;
        }
    }
    Some((checker, schema))
}

fn fetch(go: &Go, checker: &Path, schema: &Path) -> Result<(), String> {
    let told = go.run(&["mod", "download", "-json", KUBERNETES])?;
    let told: Value = serde_json::from_slice(&told).map_err(|why| why.to_string())?;
    let document =
        Path::new(told["Dir"].as_str().ok_or("the module has no folder")?).join("api/openapi-spec/swagger.json");
    let document = fs::read(&document).map_err(|why| format!("{}: {why}", document.display()))?;
    let mut document: Value = serde_json::from_slice(&document).map_err(|why| why.to_string())?;
    let definitions = document["definitions"].as_object_mut().ok_or("the document has no definitions")?;
    for definition in definitions.values_mut().filter_map(Value::as_object_mut) {
        if definition.contains_key("properties") {
            definition.entry("additionalProperties").or_insert(false.into());
        }
    }
    let of_job = serde_json::json!({ "$ref": format!("#/definitions/{JOB}"), "definitions": definitions });
    let new = go.path("job.json");
    fs::write(&new, of_job.to_string()).map_err(|why| why.to_string())?;
    fs::rename(&new, schema).map_err(|why| why.to_string())?;
    go.install(CHECKER, checker)
}

fn check(checker: &Path, schema: &Path, manifest: &Path) -> Output {
    let place = schema.with_file_name("{{.ResourceKind}}.json");
    let mut command = Command::new(checker);
    command.args(["-strict", "-summary", "-output", "json", "-schema-location"]).arg(place).arg(manifest);
    command.output().unwrap()
}

#[test]
fn the_manifest_is_a_job_by_the_schema_of_kubernetes() {
    let Some((checker, schema)) = tools() else { return };
    let campaign = Campaign::new();
    let manifest = campaign.path("campaign.yaml");
    let holds = |text: &str| {
        fs::write(campaign.path("checked.yaml"), text).unwrap();
        let output = check(&checker, &schema, &campaign.path("checked.yaml"));
        let said: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|why| panic!("{why}: {output:?}"));
        assert_eq!(
            said["summary"]["valid"].as_u64().unwrap() + said["summary"]["invalid"].as_u64().unwrap(),
            1,
            "{said}"
        );
        (output.status.success(), said.to_string())
    };
    campaign.submission("kubernetes", 3);
    let simulated = fs::read_to_string(&manifest).unwrap();
    // Real packets want another security context.
    let text = "[[set]]\nexperiment = \"connect-model\"\nconditions = [\"healthy\"]\nquick = true\nseeds = 2\nspeeds = [\"netns\"]\n";
    fs::write(campaign.path("campaign.toml"), text).unwrap();
    let plan = campaign.lab(&["plan", "campaign.toml"]);
    assert!(plan.status.success(), "{plan:?}");
    fs::write(campaign.path("plan.jsonl"), plan.stdout).unwrap();
    campaign.submission("kubernetes", 2);
    let real = fs::read_to_string(&manifest).unwrap();
    assert!(real.contains("NET_ADMIN") && !simulated.contains("NET_ADMIN"));
    // Submitted again it is another Job: it has no name that one has already, and `create` does not ask for one.
    let said = String::from_utf8(campaign.submission("kubernetes", 2).stderr).unwrap();
    assert!(said.contains("kubectl create -f") && real.contains("  generateName: headstart-\n"), "{said}\n{real}");
    assert!(!real.contains("\n  name:"), "{real}");
    // The term of the anti-affinity finds the pods of this very template.
    let label = "{ app.kubernetes.io/name: headstart }";
    assert!([&simulated, &real].iter().all(|text| text.contains(&format!("      labels: {label}\n"))));
    assert!(real.contains(&format!("labelSelector: {{ matchLabels: {label} }}\n")), "{real}");
    for text in [&simulated, &real] {
        assert!(holds(text).0, "{}\n{text}", holds(text).1);
    }
    for (right, wrong, why) in [
        ("backoffLimitPerIndex: 3", "backoffLimitPerIndx: 3", "additionalProperties"),
        ("completions: 3", "completions: many", "expected integer"),
        ("generateName: headstart-", "generatedName: headstart-", "additionalProperties"),
        ("topologyKey: kubernetes.io/hostname", "topology: kubernetes.io/hostname", "missing properties"),
        ("podAntiAffinity:", "podsAntiAffinity:", "additionalProperties"),
    ] {
        let text = if simulated.contains(right) { &simulated } else { &real };
        let (is_right, said) = holds(&text.replacen(right, wrong, 1));
        assert!(!is_right && said.contains(why), "{wrong}: {said}");
    }
}
