"""The heart: every decision between the door and the device, made on numbers and a given time.

Nothing here reads a clock, waits, starts a thread or sees a tensor; the live server and the
simulator call the same `scheduler.Scheduler`. Read in this order: request, run, cost, policy,
queueing, scheduling, batching, admission, scheduler.
"""
