//! What the core itself costs, over the store in memory: an acquire and release, the questions to a guard, and both beside
//! a hundred thousand leases that are kept. Allocations are counted, and printed first: they are the same on any machine.
//!
//! `cargo bench -p leasehold-core`

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    missing_docs,
    reason = "a program that measures, stops at the first surprise, and prints"
)]

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use leasehold_core::memory::MemoryBackend;
use leasehold_core::{DistributedLockExt, LockClient, LockGuard, LockName};
use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

const KEPT: [usize; 3] = [0, 1_000, 100_000];
const ROUNDS: u64 = 1_000;

/// The system's allocator, counting.
struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
static BYTES: AtomicU64 = AtomicU64::new(0);

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[expect(unsafe_code, reason = "an allocator is unsafe by its trait; every call is passed on as it came")]
// SAFETY: `System` keeps the contract, and nothing is changed on the way to it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        BYTES.fetch_add(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: as the caller's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as the caller's.
        unsafe { System.dealloc(pointer, layout) }
    }
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

fn client() -> LockClient {
    LockClient::new(Arc::new(MemoryBackend::new()))
}

async fn pair(locks: &LockClient, name: &LockName) {
    locks.acquire(name.clone()).await.unwrap().release().await.unwrap();
}

async fn hold(locks: &LockClient, count: usize) -> Vec<LockGuard> {
    let mut guards = Vec::with_capacity(count);
    for number in 0..count {
        guards.push(locks.acquire(format!("kept/{number}")).await.unwrap());
    }
    guards
}

fn allocations(_: &mut Criterion) {
    let (runtime, locks, name) = (runtime(), client(), LockName::new("bench").unwrap());
    runtime.block_on(pair(&locks, &name));
    let (count, bytes) = (ALLOCATIONS.load(Ordering::Relaxed), BYTES.load(Ordering::Relaxed));
    runtime.block_on(async {
        for _ in 0..ROUNDS {
            pair(&locks, &name).await;
        }
    });
    let count = ALLOCATIONS.load(Ordering::Relaxed) - count;
    let bytes = BYTES.load(Ordering::Relaxed) - bytes;
    println!("acquire + release: {} allocations, {} bytes", count / ROUNDS, bytes / ROUNDS);
    let guard = runtime.block_on(locks.acquire(name)).unwrap();
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    for _ in 0..ROUNDS {
        black_box((guard.is_held(), guard.token().unwrap()));
    }
    println!("is_held and token: {} allocations", (ALLOCATIONS.load(Ordering::Relaxed) - before) / ROUNDS);
}

fn pairs(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("acquire + release");
    for kept in KEPT {
        let (runtime, locks, name) = (runtime(), client(), LockName::new("bench").unwrap());
        let guards = runtime.block_on(hold(&locks, kept));
        group.bench_function(BenchmarkId::new("beside kept leases", kept), |bencher| {
            bencher.iter_custom(|rounds| runtime.block_on(time_pairs(&locks, &name, rounds)));
        });
        drop(guards);
    }
}

async fn time_pairs(locks: &LockClient, name: &LockName, rounds: u64) -> Duration {
    let start = Instant::now();
    for _ in 0..rounds {
        pair(locks, name).await;
    }
    start.elapsed()
}

fn guards(criterion: &mut Criterion) {
    let (runtime, locks) = (runtime(), client());
    let guard = runtime.block_on(locks.acquire("bench")).unwrap();
    criterion.bench_function("is_held", |bencher| bencher.iter(|| black_box(guard.is_held())));
    criterion.bench_function("token", |bencher| bencher.iter(|| black_box(guard.token().unwrap())));
}

criterion_group!(core, allocations, guards, pairs);
criterion_main!(core);
