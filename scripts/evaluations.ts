import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

/*
 * `node scripts/evaluations.ts [Jest's arguments]` runs `npm test` and prints how often the workers of Jest evaluated a
 * module of this repository. CONTRIBUTING.md has the figure of the whole run.
 */

const root = fileURLToPath(new URL('..', import.meta.url))
const folder = mkdtempSync(join(tmpdir(), 'evaluations-'))
const counted = join(folder, 'counted')
writeFileSync(counted, '')
const { status } = spawnSync(
  process.execPath,
  [join(root, 'test/support/run.ts'), ...process.argv.slice(2)],
  {
    cwd: root,
    env: { ...process.env, EVALUATIONS: counted },
    stdio: 'inherit',
  },
)
process.stdout.write(`${statSync(counted).size.toLocaleString('en')} evaluations of our own modules\n`)
rmSync(folder, { recursive: true })
process.exitCode = status ?? 1
