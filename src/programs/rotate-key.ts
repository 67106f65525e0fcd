import { parseArgs } from 'node:util'
import { signAgain } from '../governance/audit/sign-again.ts'
import { rotateKey } from '../governance/sealing/rotate.ts'
import { exitWithUsage, runOperatorProgram } from './operator-program.ts'

/*
 * `npm run rotate-key` makes a new data key and seals every value with it, while the service runs (docs/encryption.md).
 * With `--installation-key`, after a change of DATA_ENCRYPTION_KEY, it instead wraps the data keys and signs the kept
 * checkpoints of audit logs with the new one.
 */

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
    // A process may seal with an old key for ten seconds before it looks for a newer one.
    if (!(seconds >= 10 && seconds <= 3_600)) return null
    return { installationKey: values['installation-key'], settleMilliseconds: seconds * 1_000 }
  } catch {
    return null
  }
}

const options = optionsOf(process.argv.slice(2))
if (options === null) exitWithUsage('npm run rotate-key [-- [--installation-key] [--settle SECONDS]]')
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
