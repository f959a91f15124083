//! What a control group belongs to, by its path: a container of Docker, Podman, containerd or CRI-O, in a pod of Kubernetes or not, or a
//! unit of systemd. Names of groups are what these programs make of them, by systemd (`docker-ID.scope`) or by themselves (`docker/ID`).

/// Hexadecimal digits of a container that are shown, as `docker ps` shows them.
const SHOWN: usize = 12;
/// Digits of one in full.
const FULL: usize = 64;
/// What names of groups begin with, and whose that is.
const MAKERS: [(&str, &str); 5] = [
    ("docker-", "docker"),
    ("libpod-", "podman"),
    ("cri-containerd-", "containerd"),
    ("crio-", "cri-o"),
    ("nerdctl-", "containerd"),
];

/// `docker:0123456789ab`, `kubernetes:POD/0123456789ab` with the pod's identity, `nginx.service`; none for a group of neither a container nor a unit.
pub fn belongs_to(path: &str) -> Option<String> {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let container = parts.iter().enumerate().rev().find_map(|(at, part)| {
        let name = part.strip_suffix(".scope").unwrap_or(part);
        // containerd of itself puts more before it: kubepods-pod1.slice:cri-containerd:ID.
        let name = name.rsplit(':').next().unwrap_or(name);
        let made = MAKERS.iter().find_map(|(begin, maker)| Some((*maker, name.strip_prefix(begin)?)));
        let above = at.checked_sub(1).and_then(|above| parts.get(above)).copied();
        let by_folder = || Some((if above == Some("docker") { "docker" } else { "container" }, name));
        let (maker, id) = made.or_else(by_folder)?;
        let is_id = id.len() == FULL && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_id.then(|| (maker, &id[..SHOWN]))
    });
    let pod = parts.iter().rev().find_map(|part| pod(part));
    match (container, pod) {
        (Some((_, id)), Some(pod)) => Some(format!("kubernetes:{pod}/{id}")),
        (None, Some(pod)) => Some(format!("kubernetes:{pod}")),
        (Some((maker, id)), None) => Some(format!("{maker}:{id}")),
        // A program of a user is in a unit of its own inside that of the user's manager.
        (None, None) => parts
            .iter()
            .rev()
            .find(|part| part.ends_with(".service") || part.ends_with(".scope"))
            .map(|unit| (*unit).into()),
    }
}

/// The identity of a pod, as Kubernetes writes it: `kubepods-burstable-podUID.slice` by systemd, `podUID` without.
fn pod(part: &str) -> Option<String> {
    const DIGITS: usize = 36;
    let name = part.split(':').next().unwrap_or(part);
    let name = name.strip_suffix(".slice").unwrap_or(name);
    let id = name.rsplit("pod").next().filter(|id| id.len() == DIGITS && name.len() > DIGITS)?;
    let id = id.replace('_', "-");
    id.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-').then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn containers_pods_and_units_are_told_by_the_paths_of_their_groups() {
        let id = "0123456789abcdef".repeat(4);
        let pod = "1b2c3d4e-5f60-7182-93a4-b5c6d7e8f901";
        let flat = pod.replace('-', "_");
        let of_pod = format!("kubernetes:{pod}/0123456789ab");
        let all = [
            (format!("/system.slice/docker-{id}.scope"), Some("docker:0123456789ab".to_owned())),
            (format!("/docker/{id}"), Some("docker:0123456789ab".into())),
            (format!("/docker/{id}/system.slice/nginx.service"), Some("docker:0123456789ab".into())),
            (format!("/machine.slice/libpod-{id}.scope/container"), Some("podman:0123456789ab".into())),
            (
                format!(
                    "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{flat}.slice/cri-containerd-{id}.scope"
                ),
                Some(of_pod.clone()),
            ),
            (format!("/kubepods/besteffort/pod{pod}/{id}"), Some(of_pod.clone())),
            (
                format!("/system.slice/containerd.service/kubepods-besteffort-pod{flat}.slice:cri-containerd:{id}"),
                Some(of_pod),
            ),
            (format!("/kubepods.slice/kubepods-pod{flat}.slice"), Some(format!("kubernetes:{pod}"))),
            ("/system.slice/nginx.service".into(), Some("nginx.service".into())),
            (
                "/user.slice/user-1000.slice/user@1000.service/app.slice/app-firefox-7.scope".into(),
                Some("app-firefox-7.scope".into()),
            ),
            ("/user.slice/user-1000.slice/session-3.scope".into(), Some("session-3.scope".into())),
            ("/".into(), None),
            ("/podium/docker".into(), None),
            (format!("/docker/{}", &id[1..]), None),
            // A number alone is not said to be a pod's.
            (format!("/machines/{pod}"), None),
        ];
        for (path, expected) in all {
            assert_eq!(belongs_to(&path), expected, "{path}");
        }
    }
}
