//! The controllers against a cluster, on a held clock: the server in the process, or, where
//! `SEATRIAL_TEST_KUBECONFIG` names an administrator's kubeconfig, a real kube-apiserver without
//! controllers of its own, which is emptied before each test (`cargo xtask test` does both).
#![allow(clippy::unwrap_used, clippy::panic)]

mod boot;
mod bootstrapsigner;
mod breaker;
mod certificates;
mod crash;
mod cronjob;
mod daemonset;
mod disruption;
mod endpointslice;
mod fleet;
mod gc;
mod heartbeats;
mod job;
mod machine;
mod namespace;
mod node;
mod nodelifecycle;
mod podgc;
mod pool;
mod protection;
mod rootca;
mod scheduler;
mod serviceaccount;
mod statefulset;
mod support;
mod ttlafterfinished;
mod workloads;
mod world;
