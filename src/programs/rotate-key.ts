import { parseArgs } from 'node:util'
import { signAgain } from '../governance/audit/checkpoints.ts'
import { rotateKey } from '../governance/sealing/rotate.ts'
import { runOperatorProgram } from './operator-program.ts'

/*
 * `npm run rotate-key` makes a new data key and seals every value with this key, while the service runs
 * (docs/encryption.md). With `--installation-key`, it makes no new data key, but wraps the existing data keys with the
 * new DATA_ENCRYPTION_KEY, and signs the kept checkpoints of audit logs with it. The operator runs this after a change of DATA_ENCRYPTION_KEY.
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
    // `--settle` must be at least ten seconds: a process may seal with an old key for ten seconds before it looks for a
    // newer key.
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
await runOperatorProgram(async (context, say) => {
  const rotation = await rotateKey(context, { ...options, say })
  if (rotation.unreadable.length > 0) {
    say(`error: ${rotation.unreadable.length} values have no key that opens them, and no key was retired`)
    process.exitCode = 1
  } else if (options.installationKey && rotation.wrapped === 0 && rotation.sealed === 0)
    say('nothing to do: the data keys are wrapped with this DATA_ENCRYPTION_KEY already')
  if (!options.installationKey || context.config.checkpointFolder === null) return rotation
  const checkpoints = await signAgain(context)
  if (checkpoints.unsigned.length > 0)
    say(
      'error: not all kept checkpoints were signed with the new key: keep DATA_ENCRYPTION_KEY_OLD, verify these audit ' +
        'logs, and run the command again',
    )
  if (checkpoints.unsigned.length > 0) process.exitCode = 1
  return { ...rotation, checkpoints }
})
