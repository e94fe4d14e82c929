// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
//
// Signals and exits.
#include "trace.h"

// Bit n-1 is signal n. The loader sets it.
const volatile u64 signals = 0;

// signal_generate(sig, info, task, group, result). A signal to a whole process is generated once, not once per thread;
// one to a process group once per process.
SEC("raw_tp/signal_generate")
int dp_signal(struct context *ctx)
{
	u32 number = ctx->args[0];
	// 0 and 1 are no pointers: SEND_SIG_NOINFO is a process's, SEND_SIG_PRIV the kernel's (include/linux/sched/signal.h).
	u64 info = ctx->args[1];
	struct task_struct *task = (struct task_struct *)ctx->args[2];
	struct event *e;
	s32 code = SI_USER;

	if (number < 1 || number > 64 || !(signals >> (number - 1) & 1))
		return 0;
	if (!watches_process(task))
		return 0;
	e = begin(SIGNAL_SENT, sizeof(*e));
	if (!e)
		return 0;
	e->signal = number;
	e->detail = (s32)ctx->args[4];
	if (info > 1)
		code = LOAD(((struct kernel_siginfo *)info)->si_code);
	// SI_TIMER and the like are negative too, but no process sends them.
	if (info == 1 || (code != SI_USER && code != SI_QUEUE && code != SI_TKILL))
		e->flags |= FROM_KERNEL | BYSTANDER;
	describe(&e->by, current());
	describe(&e->to, task);
	end(e);
	return 0;
}

struct life {
	u64 start_time;
	u32 pid;
	u32 unused;
};

// Processes whose end was told. Two last threads that end at the same time may both find that none is left.
struct {
	MAP_NUMBER(type, MAP_LRU_HASH);
	MAP_NUMBER(max_entries, 1024);
	MAP_TYPE(key, struct life);
	MAP_TYPE(value, u8);
} ended SEC(".maps");

SEC("raw_tp/sched_process_exit")
int dp_exit(struct context *ctx)
{
	struct task_struct *task = (struct task_struct *)ctx->args[0];
	struct signal_struct *signal = LOAD(task->signal);
	struct task_struct *leader;
	struct life life = {};
	struct event *e;
	u8 yes = 1;
	s32 code;

	if (LOAD(signal->live.counter) != 0 || !watches_process(task))
		return 0;
	leader = LOAD(task->group_leader);
	life.start_time = LOAD(leader->start_time);
	life.pid = LOAD(task->tgid);
	if (bpf_map_update_elem(&ended, &life, &yes, UPDATE_NOEXIST))
		return 0;
	e = begin(PROCESS_EXITED, SHORT);
	if (!e)
		return 0;
	// As wait(2) will tell it (kernel/exit.c, wait_task_zombie).
	if (LOAD(signal->flags) & SIGNAL_GROUP_EXIT)
		code = LOAD(signal->group_exit_code);
	else
		code = LOAD(leader->exit_code);
	e->signal = code & 0x7f;
	e->detail = code >> 8 & 0xff;
	describe(&e->by, task);
	end(e);
	return 0;
}
