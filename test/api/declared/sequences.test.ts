import { expect, test } from '@jest/globals'
import fc from 'fast-check'
import { newId } from '../../../src/contract/ids.ts'
import { byDepth } from '../../support/depth.ts'
import type { Answer } from '../server.ts'
import { useServer } from '../use-server.ts'

const { ours } = useServer(() => {})

const step = (key: string) => ({ steps: [{ id: 'get', tool: 'memory_get', params: { key } }] })
/** Each object in two forms. Nothing names another one, so every set of them can be applied. */
const forms = (name: string): readonly (readonly object[])[] => [
  [
    { kind: 'rule', name, verdict: 'deny', tools: [`mcp__s__${name}`] },
    { kind: 'rule', name, verdict: 'allow', tools: [`mcp__s__${name}`], description: 'd' },
  ],
  [
    { kind: 'label_rule', name, tools: ['mail_send'], add_labels: ['internal'] },
    { kind: 'label_rule', name, tools: ['mail_send'], add_labels: ['pii'], status: 'inactive' },
  ],
  [
    { kind: 'group', name, members: [] },
    { kind: 'group', name, members: ['member@countersign.test', 'VIEWER@countersign.test'] },
  ],
  [
    { kind: 'tool_policy', tool_name: `mcp__s__${name}`, allowed: false },
    { kind: 'tool_policy', tool_name: `mcp__s__${name}`, allowed: null, restrictions: { read_only: true } },
  ],
  [
    { kind: 'role_override', tool_name: `mcp__s__${name}`, role: 'viewer', allowed: false },
    { kind: 'role_override', tool_name: `mcp__s__${name}`, role: 'viewer', allowed: true },
  ],
  [
    { kind: 'workflow', slug: name, name: 'One', definition: step('a') },
    { kind: 'workflow', slug: name, name: 'Two', definition: step('b'), run_by: ['admin'] },
  ],
  [
    { kind: 'organization', approval_threshold: 2 },
    { kind: 'organization', approval_threshold: 3, run_values: 'members' },
  ],
]

/** null: no file. Files in another folder are the same objects. */
const choice = fc.record({ form: fc.constantFrom(null, 0, 1), folder: fc.constantFrom('a', 'b') })
const sequence = fc.array(fc.array(choice, { minLength: 7, maxLength: 7 }), { minLength: 1, maxLength: 4 })

test('after any sequence of applications, the organization is what the last files say', async () => {
  await fc.assert(
    fc.asyncProperty(sequence, async (applications) => {
      const name = `n${newId('rule').slice(5).toLowerCase()}`
      const repository = `https://git.example/${name}`
      const apply = (objects: readonly object[], more: object = {}): Promise<Answer> =>
        ours('owner', 'POST', '/apply', { objects, repository, ...more })
      for (const chosen of [...applications, []]) {
        const objects = forms(name).flatMap((each, at) => {
          const { form = null, folder } = chosen[at] ?? {}
          return form === null ? [] : [{ ...each[form], path: `${folder}/${at}.yaml` }]
        })
        const planned = await apply(objects, { dry_run: true })
        const made = await apply(objects, { plan: planned.body.plan })
        const { dry_run: _, changes: planChanges, ...plan } = planned.body
        const { dry_run: __, changes, ...done } = made.body
        expect([planned.status, made.status, done]).toEqual([200, 200, plan])
        const whats = (list: { action: string; kind: string; lines: string[] }[]) =>
          list.map(({ action, kind, lines }) => [action, kind, lines])
        expect(whats(changes)).toEqual(whats(planChanges))
        const again = await apply(objects)
        expect(again.body).toMatchObject({ created: 0, changed: 0, deleted: 0, unchanged: objects.length })
        expect(again.body.changes).toEqual([])
        // What the list gives is what the files say, in the form in which they say it.
        const listed = (await ours('owner', 'GET', '/objects?limit=200')).body.data.filter(
          (each: { managed_by: { repository: string } | null }) => each.managed_by?.repository === repository,
        )
        const pulled = listed.map(
          ({ managed_by: { path }, ...object }: { managed_by: { path: string } }) => ({
            ...object,
            path,
          }),
        )
        expect((await apply(pulled)).body).toMatchObject({ changes: [], unchanged: objects.length })
      }
    }),
    { numRuns: byDepth(8, 100) },
  )
})
