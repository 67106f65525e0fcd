import { execFileSync } from 'node:child_process'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

/*
 * Checks that src/ keeps the import directions in .dependency-cruiser.cjs. Each rule must also report the violation
 * that is planted for it in test/checks/planted. This proves that the cruiser sees modules and types. A cruiser that
 * sees none would find no error.
 */

interface Cruise {
  readonly summary: {
    readonly totalCruised: number
    readonly totalDependenciesCruised: number
    readonly violations: readonly { rule: { name: string }; from: string; to: string }[]
  }
}

const root = fileURLToPath(new URL('..', import.meta.url))
const config = join(root, '.dependency-cruiser.cjs')

function cruise(cwd: string, folders: readonly string[]): Cruise['summary'] {
  const program = join(root, 'node_modules', '.bin', 'depcruise')
  const text = execFileSync(program, ['--config', config, '--output-type', 'json', ...folders], {
    cwd,
    encoding: 'utf8',
    maxBuffer: 256 * 1024 * 1024,
  })
  return (JSON.parse(text) as Cruise).summary
}

const problems: string[] = []
const { forbidden } = createRequire(import.meta.url)(config) as { forbidden: { name: string }[] }
const planted = cruise(join(root, 'test', 'checks', 'planted'), ['src', 'test'])
for (const { name } of forbidden) {
  const isSeen = planted.violations.some(({ rule, from }) => rule.name === name && from.includes(`/${name}`))
  if (!isSeen) problems.push(`the planted violation of \`${name}\` was not reported`)
}

const real = cruise(root, ['src'])
if (real.totalCruised === 0 || real.totalDependenciesCruised === 0) problems.push('no module was looked at')
for (const { rule, from, to } of real.violations) problems.push(`${rule.name}: ${from} imports ${to}`)

const found = `${real.totalCruised} modules, ${real.totalDependenciesCruised} imports, ${forbidden.length} rules`
process.stdout.write([...problems, found, ''].join('\n'))
process.exitCode = problems.length === 0 ? 0 : 1
