import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'

const root = join(import.meta.dirname, '../../..')

/**
 * Files that write what decides calls, and how each keeps `loosening: second_person`. A new writer calls `changeAs`
 * (src/governance/changes/gate.ts), or says here why it needs not.
 */
const writers: Readonly<Record<string, string>> = {
  // Called by rules.ts, and by the application of files (src/governance/declared).
  'src/governance/rules/write-rules.ts': 'only what has come through the gate',
  'src/governance/rules/settings.ts': 'changeAs',
  'src/governance/rules/tool-policies.ts': 'changeAs',
  'src/governance/rules/role-overrides.ts': 'changeAs',
  // A group that something names cannot be deleted.
  'src/governance/people/groups.ts': 'changeAs',
  'src/db/queries/people.ts': 'the name of an organization',
  'src/governance/delivery/task-queue.ts': 'where Temporal keeps its tasks',
  // Only the plan's limits on numbers and bytes.
  'src/governance/limits/quota.ts': 'decides no call',
  'src/governance/people/bootstrap.ts': 'a new organization, without rules',
  'src/governance/people/organizations.ts': 'a new organization, without rules',
}

const tables = [
  'rules',
  'label_rules',
  'tool_policies',
  'role_policy_overrides',
  'organizations',
  'groups',
  'group_members',
]
const builder = new RegExp(`(insertInto|updateTable|deleteFrom)\\(\\s*'(${tables.join('|')})'`)
const statement = new RegExp(`\\b(insert into|update|delete from) (${tables.join('|')})\\b`)
/** The table of a kind of rules, in write-rules.ts. */
const ofKind = /(insertInto|updateTable|deleteFrom)\(table\)/

test('every writer of rules, policies, settings and groups goes through the gate, or says why not', () => {
  const found = globSync('src/{governance,calls,activities,api,db/queries}/**/*.ts', { cwd: root }).filter(
    (file) => {
      const text = readFileSync(join(root, file), 'utf8')
      return builder.test(text) || statement.test(text) || ofKind.test(text)
    },
  )
  expect(found.map((file) => file.replaceAll('\\', '/')).sort()).toEqual(Object.keys(writers).sort())
  for (const [file, how] of Object.entries(writers))
    if (how === 'changeAs') expect(readFileSync(join(root, file), 'utf8')).toMatch(/changeAs[(<]/)
})
