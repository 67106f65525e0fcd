/** `npm run bench [name] [arguments]`: one benchmark, or all of them but the soak, one after another. Each prints both sides. */
const benchmarks: Readonly<Record<string, () => Promise<{ run(args: readonly string[]): Promise<void> }>>> = {
  append: () => import('./append.ts'),
  verify: () => import('./verify.ts'),
  rules: () => import('./rules.ts'),
  runs: () => import('./runs.ts'),
  hook: () => import('./hook.ts'),
  mcp: () => import('./mcp.ts'),
  authorize: () => import('./authorize.ts'),
  held: () => import('./held.ts'),
  neighbours: () => import('./neighbours.ts'),
  shell: () => import('./shell.ts'),
  soak: () => import('./soak.ts'),
}

const [name, ...args] = process.argv.slice(2)
if (name !== undefined && benchmarks[name] === undefined) {
  process.stderr.write(`no benchmark \`${name}\`: choose one of ${Object.keys(benchmarks).join(', ')}\n`)
  process.exitCode = 2
} else {
  for (const [each, load] of Object.entries(benchmarks)) {
    // An hour's third of load is only run when it is asked for.
    if (name === each || (name === undefined && each !== 'soak'))
      await (await load()).run(name === undefined ? [] : args)
  }
}
