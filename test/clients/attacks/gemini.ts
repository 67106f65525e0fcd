import { join } from 'node:path'
import type { Place } from '../client.ts'
import { change } from '../machine.ts'
import type { AttackRun } from './attack.ts'

const userSettings = ({ home }: Place): string => join(home, '.gemini', 'settings.json')
const switchedOff = (place: Place): void => change(userSettings(place), { hooksConfig: { enabled: false } })

export const geminiAttacks: readonly AttackRun[] = [
  {
    client: 'gemini',
    installation: 'managed',
    attacks: [
      {
        id: 'gemini-managed-enabled-false',
        attack: "`hooksConfig.enabled: false` in the user's settings",
        expected: 'holds',
      },
    ],
    setup: switchedOff,
  },
  {
    client: 'gemini',
    installation: 'user',
    attacks: [
      {
        id: 'gemini-user-enabled-false',
        attack: "`hooksConfig.enabled: false` in the user's settings",
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
