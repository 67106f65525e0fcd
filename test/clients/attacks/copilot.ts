import { join } from 'node:path'
import type { Place } from '../client.ts'
import { change } from '../machine.ts'
import type { AttackRun } from './attack.ts'

const switchedOff = ({ home }: Place): void =>
  change(join(home, '.copilot', 'hooks', 'countersign.json'), { version: 1, disableAllHooks: true })

export const copilotAttacks: readonly AttackRun[] = [
  {
    client: 'copilot',
    installation: 'managed',
    attacks: [
      {
        id: 'copilot-managed-disable-all-hooks',
        attack: "`disableAllHooks` in the user's hooks",
        expected: 'holds',
      },
    ],
    setup: switchedOff,
  },
  {
    client: 'copilot',
    installation: 'user',
    attacks: [
      {
        id: 'copilot-user-disable-all-hooks',
        attack: "`disableAllHooks` in the user's hooks",
        expected: {
          why: 'A user can switch off their own hooks.',
          helps: 'Install with `--managed`. `doctor` says `NOT protected`.',
        },
      },
    ],
    setup: switchedOff,
    doctor: /^NOT protected$/,
  },
]
