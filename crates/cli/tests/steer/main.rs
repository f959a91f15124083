//! A tunnel over two channels between namespaces: the host's end by `headstart up --steer`, the network's by `headstart
//! gateway`, curl through it, and channels that are pulled.

mod keys;
mod scene;
mod tunnel;
