/**
 * `npm run bench [name] [arguments]`: runs one benchmark. Without a name, runs all benchmarks in sequence, but not the
 * soak. A benchmark that compares two sides prints the numbers of both sides.
 */
const benchmarks: Readonly<Record<string, () => Promise<{ run(args: readonly string[]): Promise<void> }>>> = {
  append: () => import('./append.ts'),
  verify: () => import('./verify.ts'),
  rules: () => import('./rules.ts'),
  runs: () => import('./runs.ts'),
  parts: () => import('./parts.ts'),
  waiting: () => import('./waiting.ts'),
  hook: () => import('./hook.ts'),
  mcp: () => import('./mcp.ts'),
  authorize: () => import('./authorize.ts'),
  held: () => import('./held.ts'),
  pages: () => import('./pages.ts'),
  expressions: () => import('./expressions.ts'),
  neighbours: () => import('./neighbours.ts'),
  shell: () => import('./shell.ts'),
  policy: () => import('./policy.ts'),
  apply: () => import('./apply.ts'),
  tools: () => import('./tools.ts'),
  triggers: () => import('./triggers.ts'),
  soak: () => import('./soak.ts'),
}

const [name, ...args] = process.argv.slice(2)
if (name !== undefined && benchmarks[name] === undefined) {
  process.stderr.write(`no benchmark \`${name}\`: choose one of ${Object.keys(benchmarks).join(', ')}\n`)
  process.exitCode = 2
} else {
  for (const [each, load] of Object.entries(benchmarks)) {
    // The soak takes 20 minutes, so it runs only by name.
    if (name === each || (name === undefined && each !== 'soak'))
      await (await load()).run(name === undefined ? [] : args)
  }
}
