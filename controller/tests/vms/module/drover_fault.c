// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * Breaks the kernel that it is loaded into, in the way whose name is written to
 * /sys/module/drover_fault/parameters/provoke. For virtual machines of tests only: most ways have no way back.
 */
#include <linux/delay.h>
#include <linux/irqflags.h>
#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/nmi.h>
#include <linux/preempt.h>
#include <linux/processor.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/string.h>

/* A CPU that takes interrupts, and runs nothing else any more. */
static void soft_lockup(void)
{
	preempt_disable();
	for (;;)
		cpu_relax();
}

/*
 * A reader that never ends. The watchdog, which would be the first to say so, is told that all is well. Another CPU has to be
 * there, to begin the grace period that does not end.
 */
static void rcu_stall(void)
{
	/* So that a limit that was changed counts. */
	synchronize_rcu();
	rcu_read_lock();
	for (;;) {
		touch_softlockup_watchdog();
		mdelay(1);
	}
}

static void null_dereference(void)
{
	/* Only known when it runs, or the compiler makes something else of it. */
	int *volatile nowhere = NULL;

	*nowhere = 1;
}

/* Waits for what nobody gives. */
static void hung_task(void)
{
	for (;;) {
		set_current_state(TASK_UNINTERRUPTIBLE);
		schedule();
	}
}

/* A CPU that takes no interrupts: if it is the only one, nobody is left to report that. Another one reports a stall of RCU. */
static void silence(void)
{
	synchronize_rcu();
	local_irq_disable();
	for (;;)
		cpu_relax();
}

static const struct {
	const char *name;
	void (*provoke)(void);
} ways[] = {
	{ "soft-lockup", soft_lockup },
	{ "rcu-stall", rcu_stall },
	{ "null-dereference", null_dereference },
	{ "hung-task", hung_task },
	{ "silence", silence },
};

static int provoke(const char *name, const struct kernel_param *param)
{
	size_t way;

	for (way = 0; way < ARRAY_SIZE(ways); way++) {
		if (sysfs_streq(name, ways[way].name)) {
			ways[way].provoke();
			return 0;
		}
	}
	return -EINVAL;
}

static const struct kernel_param_ops provoke_ops = { .set = provoke };

module_param_cb(provoke, &provoke_ops, NULL, 0200);
MODULE_PARM_DESC(provoke, "The way to break the kernel");
MODULE_DESCRIPTION("Breaks the kernel, for tests of who notices");
MODULE_LICENSE("Dual MIT/GPL");
