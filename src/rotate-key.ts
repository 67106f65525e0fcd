import { parseArgs } from 'node:util'
import { readConfig } from './config.ts'
import { createContext } from './context.ts'
import { rotateKey } from './governance/sealing/rotate.ts'
import { toolEnvironment } from './tool-environment.ts'

/*
 * `npm run rotate-key`: makes a new data key and seals every value with it, while everything runs (docs/encryption.md).
 * `npm run rotate-key -- --installation-key`: wraps the data keys with DATA_ENCRYPTION_KEY, after that was changed.
 */

const usage = 'usage: npm run rotate-key [-- [--installation-key] [--settle SECONDS]]\n'
const longestSettle = 3_600

function optionsOf(args: string[]): { installationKey: boolean; settleMilliseconds: number } | null {
  try {
    const { values } = parseArgs({
      args,
      options: {
        'installation-key': { type: 'boolean', default: false },
        settle: { type: 'string', default: '60' },
      },
    })
    const seconds = Number(values.settle)
    // Processes seal with a key for up to ten seconds without asking for a newer one.
    if (!(seconds >= 10 && seconds <= longestSettle)) return null
    return { installationKey: values['installation-key'], settleMilliseconds: seconds * 1_000 }
  } catch {
    return null
  }
}

const options = optionsOf(process.argv.slice(2))
if (options === null) {
  process.stderr.write(usage)
  process.exit(2)
}
// Standard output is the answer alone.
const say = (line: string): void => void process.stderr.write(`${line}\n`)
try {
  const context = createContext(readConfig(toolEnvironment(process.env, say)), 'tool')
  try {
    const rotation = await rotateKey(context, { ...options, say })
    process.stdout.write(`${JSON.stringify(rotation, null, 2)}\n`)
    if (rotation.unreadable.length > 0) {
      say(`error: no key opens ${rotation.unreadable.length} values, and no key was retired`)
      process.exitCode = 1
    }
  } finally {
    await context.close()
  }
} catch (error) {
  process.stderr.write(`error: ${(error as Error).message}\n`)
  process.exitCode = 1
}
