// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
//
// What a program needs of BPF itself: fixed-width types, map definitions, and the few helpers in use. The numbers of the
// helpers are the kernel's stable interface (include/uapi/linux/bpf.h).
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int s32;
typedef long long s64;
typedef u16 be16;
typedef u32 be32;

#define NULL ((void *)0)
#define SEC(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))

// A map is described by the type of a variable in .maps: numbers as the lengths of arrays, types as pointers.
#define MAP_NUMBER(name, value) int (*name)[value]
#define MAP_TYPE(name, value) typeof(value) *name

enum {
	MAP_HASH = 1,
	MAP_PERCPU_ARRAY = 6,
	MAP_LRU_HASH = 9,
	MAP_RINGBUF = 27,
	UPDATE_NOEXIST = 1,
	RING_NO_WAKEUP = 1,
	RING_FORCE_WAKEUP = 2,
};

static void *(*bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static long (*bpf_map_update_elem)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static u64 (*bpf_ktime_get_ns)(void) = (void *)5;
static long (*bpf_skb_load_bytes)(const void *skb, u32 offset, void *to, u32 size) = (void *)26;
static u64 (*bpf_get_current_task)(void) = (void *)35;
static long (*bpf_probe_read_kernel)(void *to, u32 size, const void *from) = (void *)113;
static u64 (*bpf_jiffies64)(void) = (void *)118;
static void *(*bpf_ringbuf_reserve)(void *ring, u64 size, u64 flags) = (void *)131;
static void (*bpf_ringbuf_submit)(void *data, u64 flags) = (void *)132;

// What a raw tracepoint and an fentry program are called with: the arguments of the tracepoint or function, a word each.
struct context {
	u64 args[5];
};

// What a socket's filter is called with. Behind it is the struct sk_buff itself.
struct __sk_buff {
	u32 len;
};

// LOAD reads a field of the running kernel, wherever its version keeps it; all zero where the pointer is bad.
// The programs use it even where the verifier would let them follow a pointer: one way to read, on every version.
#define LOAD(field)                                                           \
	({                                                                        \
		typeof(field) loaded_;                                                \
		bpf_probe_read_kernel((void *)&loaded_, sizeof(loaded_), &(field));   \
		loaded_;                                                              \
	})

// FIELD_ADDRESS is where the running kernel keeps a field, for what is read by bytes.
#define FIELD_ADDRESS(field) ((const void *)&(field))
// SIZE_IN_KERNEL is the size of a type in the running kernel (BPF_CORE_TYPE_SIZE is 1).
#define SIZE_IN_KERNEL(type) __builtin_preserve_type_info(*(typeof(type) *)0, 1)

#define from_be16(v) __builtin_bswap16(v)
#define to_be32(v) __builtin_bswap32(v)
