/** Milliseconds of this process's CPU that `work` takes: a machine that is busy with other things changes little of it. */
export function cpuMilliseconds(work: () => void): number {
  const before = process.cpuUsage()
  work()
  const { user, system } = process.cpuUsage(before)
  return (user + system) / 1_000
}
