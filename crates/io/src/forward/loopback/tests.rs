//! Services outside, and programs inside that use them.

use super::*;
use crate::sys::netlink::{LOOPBACK, Netlink};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream, UdpSocket};

fn namespace() -> NetNs {
    let namespace = NetNs::create().unwrap();
    namespace.run(|| Netlink::open().unwrap().up(LOOPBACK).unwrap()).unwrap();
    namespace
}

#[test]
#[ignore = "needs network namespaces: cargo xtask test"]
fn services_of_the_host_are_there_inside_and_what_is_not_is_refused() {
    let (outside, inside) = (namespace(), namespace());
    let (streams, datagrams) = outside
        .run(|| (TcpListener::bind("127.0.0.1:8080").unwrap(), UdpSocket::bind("127.0.0.53:53").unwrap()))
        .unwrap();
    let service = std::thread::spawn(move || {
        let (mut stream, from) = streams.accept().unwrap();
        let mut said = String::new();
        stream.read_to_string(&mut said).unwrap();
        stream.write_all(said.to_uppercase().as_bytes()).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let (mut second, _) = streams.accept().unwrap();
        // It is reset with something unread.
        second.read_exact(&mut [0]).unwrap();
        from.ip()
    });
    let resolver = std::thread::spawn(move || {
        for _ in 0..2 {
            let (len, from) = datagrams.recv_from(&mut [0; 100]).unwrap();
            datagrams.send_to(&vec![7; len], from).unwrap();
        }
    });
    let offer = outside.run(|| Loopback::offer(&inside, &Theirs::new().unwrap()).unwrap()).unwrap();
    inside
        .run(|| {
            let to: SocketAddr = "127.0.0.1:8080".parse().unwrap();
            let mut stream = TcpStream::connect(to).unwrap();
            stream.write_all(b"hello").unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
            let mut heard = String::new();
            stream.read_to_string(&mut heard).unwrap();
            assert_eq!(heard, "HELLO", "each half ends by itself");
            let mut second = TcpStream::connect(to).unwrap();
            second.write_all(b"xy").unwrap();
            let error = second.read(&mut [0]).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
            for client in [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap()) {
                client.connect("127.0.0.53:53").unwrap();
                client.send(b"query").unwrap();
                let mut answer = [0; 100];
                assert_eq!(client.recv(&mut answer).unwrap(), 5);
            }
            let nobody = TcpStream::connect("127.0.0.1:8081").unwrap_err();
            assert_eq!(nobody.kind(), io::ErrorKind::ConnectionRefused);
            let taken = TcpListener::bind("127.0.0.1:8080").unwrap_err();
            assert_eq!(taken.kind(), io::ErrorKind::AddrInUse, "as it is outside");
            let own = TcpListener::bind("127.0.0.1:8082").unwrap();
            TcpStream::connect(own.local_addr().unwrap()).unwrap();
        })
        .unwrap();
    assert!(service.join().unwrap().is_loopback());
    resolver.join().unwrap();
    drop(offer);
    inside
        .run(|| {
            let nobody = TcpStream::connect("127.0.0.1:8080").unwrap_err();
            assert_eq!(nobody.kind(), io::ErrorKind::ConnectionRefused);
        })
        .unwrap();
}

#[test]
#[ignore = "needs network namespaces: cargo xtask test"]
fn what_begins_later_is_there_for_a_program_that_is_refused_and_tries_again() {
    let (outside, inside) = (namespace(), namespace());
    // Nothing is looked up for an hour, unless somebody is refused.
    let begin = || Loopback::with(&inside, &Theirs::new().unwrap(), Duration::from_secs(3600)).unwrap();
    let _offer = outside.run(begin).unwrap();
    let (clock, limit) = (Clock::new(), Duration::from_secs(60));
    let again = |done: &mut dyn FnMut() -> bool| {
        let end = clock.now() + limit;
        while !done() {
            assert!(clock.now() < end, "it has been refused for a minute");
            clock.sleep(Duration::from_millis(5));
        }
    };
    for ip in ["127.0.0.1", "[::1]"] {
        let bind = || (TcpListener::bind(format!("{ip}:0")).unwrap(), UdpSocket::bind(format!("{ip}:0")).unwrap());
        let (streams, datagrams) = outside.run(bind).unwrap();
        let at = [streams.local_addr().unwrap(), datagrams.local_addr().unwrap()];
        inside.run(|| again(&mut || TcpStream::connect(at[0]).is_ok())).unwrap();
        assert!(streams.accept().is_ok());
        let client = inside.run(|| UdpSocket::bind(format!("{ip}:0")).unwrap()).unwrap();
        client.connect(at[1]).unwrap();
        datagrams.set_nonblocking(true).unwrap();
        again(&mut || {
            // The refusal of one is an error of the next.
            let _ = client.send(b"hello");
            datagrams.recv(&mut [0; 9]).is_ok()
        });
    }
}
