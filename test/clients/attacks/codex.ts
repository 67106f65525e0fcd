import type { AttackRun } from './attack.ts'

export const codexAttacks: readonly AttackRun[] = [
  {
    client: 'codex',
    installation: 'managed',
    attacks: [
      {
        id: 'codex-managed-untrusted',
        attack: 'a session whose user has trusted no hook',
        expected: 'holds',
      },
    ],
    doctor: /^protected$/,
  },
  {
    client: 'codex',
    installation: 'user',
    untrusted: true,
    attacks: [
      {
        id: 'codex-user-untrusted',
        attack: 'a session whose user has trusted no hook',
        expected: {
          why: "Codex skips a user's hooks until they are trusted in `/hooks`, and does not say so.",
          helps: 'Install with `--managed`. `doctor` says `NOT protected`.',
        },
      },
    ],
    doctor: /^NOT protected$/,
  },
]
