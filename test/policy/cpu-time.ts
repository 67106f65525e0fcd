/** Milliseconds of this process's CPU that `work` takes. Other load on the machine hardly changes this number. */
export function cpuMilliseconds(work: () => void): number {
  const before = process.cpuUsage()
  work()
  const { user, system } = process.cpuUsage(before)
  return (user + system) / 1_000
}
