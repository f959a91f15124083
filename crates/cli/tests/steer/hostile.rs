//! Clients of a proxy that never say what they want.

use crate::attack::{Attack, raise_files};
use crate::proxy::{FAT, Proxy, ip, over};
use crate::scene::{Scene, inside};
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};

inside!(half_a_head_by_the_thousand_keeps_no_user_out, || {
    let Some(scene) = Scene::new() else { return };
    drop(Proxy::new(&scene, "obj-priority"));
    let proxy = Proxy::at(&scene, "obj-priority", FAT);
    ip(&["address", "add", "198.51.100.7/32", "dev", "lo"]);
    raise_files();
    let to: SocketAddr = proxy.url.trim_start_matches("http://").parse().unwrap();
    let halves: Vec<TcpStream> = (0..1200)
        .map(|_| {
            let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
            bind(&socket, &SocketAddr::from(([198, 51, 100, 7], 0))).unwrap();
            connect(&socket, &to).unwrap();
            let mut half = TcpStream::from(socket);
            let _ = half.write_all(b"GET http://");
            half
        })
        .collect();
    let refused = (0..4).filter(|_| proxy.fetch(&["--header", "Priority: u=1"], "/who/900") != over(FAT, 900)).count();
    let row = Attack { attack: "1,200 half heads from one address", listener: "proxy --users" };
    row.at_most("requests of users that are refused, of 4", 0.0, refused as f64);
    drop(halves);
});
