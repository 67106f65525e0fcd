/*
 * A worker runs this file once, before its first run. Without a limit, V8 records no stack for an error of the workflow
 * code. Otherwise the SDK would make a stack for each promise of each run, and would keep it while the promise is open
 * (docs/decisions/0194). If you need stacks to find a bug of the interpreter, take this file out of `bundleWorkflows`.
 */
delete (Error as { stackTraceLimit?: number }).stackTraceLimit
