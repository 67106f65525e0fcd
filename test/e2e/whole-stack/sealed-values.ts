import { spawn, type ChildProcess } from 'node:child_process'
import { randomBytes, randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { beforeAll, describe, expect, test } from '@jest/globals'
import { createContext } from '../../../src/programs/create-context.ts'
import { sealedColumns, type Row } from '../../../src/governance/sealing/columns.ts'
import { keyIdOf } from '../../../src/governance/sealing/format.ts'
import { asAdmin } from '../../support/postgres.ts'
import { programEnv } from '../../support/program-env.ts'
import { columnsHolding } from '../../support/scan.ts'
import { testConfig } from '../../governance/support.ts'
import { home } from './home.ts'

/**
 * A whole stack, with separate API and worker processes. The database shows none of the values that passed through
 * the stack. The data key is replaced while runs continue, and the replacement is killed repeatedly.
 */
export function sealedValues(): void {
  describe('sealed values', () => {
    let workflowId: string

    /** One planted text for each way into the service. */
    const planted = Object.fromEntries(
      ['input', 'file', 'constant', 'memory', 'agent', 'allowed', 'resolved', 'broken'].map((name) => [
        name,
        `s3cr3t-${name}-${randomBytes(9).toString('hex')}`,
      ]),
    ) as Record<string, string>

    const definition = {
      inputs: { secret: { type: 'string', required: true }, key: { type: 'string', required: true } },
      steps: [
        { id: 'read', tool: 'file_read', params: { path: 'reports/q3-summary.md' } },
        {
          id: 'keep',
          tool: 'memory_set',
          params: {
            key: '{{input.key}}',
            value: { secret: '{{input.secret}}', text: '{{read.output.text}}' },
          },
        },
        { id: 'recall', tool: 'memory_get', depends_on: ['keep'], params: { key: '{{input.key}}' } },
        { id: 'each', tool: 'memory_get', for_each: ['{{input.secret}}', 'x'], params: { key: 'k' }, when: { value: '{{item}}', operator: 'equals', compare: 'x' } }, // prettier-ignore
        // Fails with an error that names the problem.
        { id: 'lost', tool: 'file_read', on_error: 'continue', params: { path: '{{input.secret}}.md' } },
        { id: 'odd', tool: 'memory_get', on_error: 'continue', params: { key: '{{input.secret}}\n' } },
        {
          id: 'none',
          tool: 'file_read',
          on_error: 'continue',
          params: { path: '{{recall.output.value.none}}' },
        },
      ],
      result: { all: '{{recall.output}}', given: '{{input.secret}}' },
    }
    const heldMail = {
      inputs: { secret: { type: 'string', required: true } },
      steps: [{ id: 'send', tool: 'mail_send', params: { to: 'ana@acme.test', subject: '{{input.secret}}', text: '{{input.secret}}' } }], // prettier-ignore
    }

    beforeAll(async () => {
      await home.owner.settings({ approvals_enabled: true })
      await home.admin.createRule({
        name: 'held',
        verdict: 'require_approval',
        tools: ['Write', 'mail_send'],
      })
      await home.query(
        `update organizations set quota_overrides = '{"requests_per_minute": 100000, "workflow_runs_per_hour": 100000, "concurrent_executions": 100}'`,
      )
      workflowId = await home.member.createWorkflow('Secrets', definition)
    })

    const execute = (secret: string, key: string = randomUUID()): Promise<string> =>
      home.member.execute(workflowId, { secret, key })

    const ask = (tool: string, input: object) =>
      home.member.good<{ decision: string }>('POST', '/authorize', {
        agent: { name: 'a', kind: 'hook' },
        session_id: 'session',
        tool_name: tool,
        tool_input: input,
        tool_use_id: randomUUID(),
      })

    describe('the content of the database', () => {
      test('shows nothing of inputs, parameters, outputs, results, memory values, agents’ inputs and stored answers', async () => {
        const { member, approver } = home
        const memory = `/memory/${randomUUID()}`
        await member.good('PUT', memory, { value: { deep: [planted['memory']] } })
        expect(await member.good('GET', memory)).toMatchObject({ value: { deep: [planted['memory']] } })
        const runId = await execute(planted['input'] as string)
        const run = await member.untilStatus(runId, 'completed')
        expect(run).toMatchObject({
          inputs: { secret: planted['input'] },
          result: { given: planted['input'] },
        })
        expect(run.steps.filter((step) => step.error !== null).map((step) => step.id)).toEqual([
          'lost',
          'odd',
          'none',
        ])
        // One mail is held, approved and sent; one stays held.
        const mails = await member.createWorkflow('Mails', heldMail)
        const [sent] = await Promise.all(
          [0, 1].map(() => member.execute(mails, { secret: planted['broken'] }, { key: randomUUID() })),
        )
        const approvalId = await approver.untilHeld(sent as string, 'step')
        expect(JSON.stringify(await approver.approval(approvalId))).toContain(planted['broken'])
        await approver.decide(approvalId, 'approve')
        await member.untilStatus(sent as string, 'completed')
        expect(await ask('Write', { file_path: 'a', content: planted['agent'] })).toMatchObject({
          decision: 'require_approval',
        })
        expect(await ask('Read', { file_path: planted['allowed'] })).toMatchObject({ decision: 'allow' })
        // Two answers are stored for their Idempotency-Key: one has a run's complete outputs, the other a new API key.
        const answer = await home.owner.call<{ api_key: string }>('POST', '/api-keys', { name: 'k', scopes: ['runs:read'] }, { key: 'k1' }) // prettier-ignore
        const body = { inputs: { secret: planted['input'], key: 'again' } }
        await member.good('POST', `/workflows/${workflowId}/execute?wait=30`, body, { key: 'k2' })

        const texts = [...Object.values(planted), answer.body.api_key, 'Two hospitals in Utrecht']
        expect(answer.body.api_key.length).toBeGreaterThan(20)
        await asAdmin(home.member.bootstrap.database_admin_url, async (client) => {
          expect(await columnsHolding(client, texts)).toEqual([])
          // Proves that the scan works: it finds a name, which is not sealed, and values in place of sealed ones.
          expect(await columnsHolding(client, ['Secrets'])).toContain('workflows.name')
          await client.query('begin')
          await client.query(`update memory set value_sealed = convert_to($1, 'UTF8')`, [
            JSON.stringify(texts[0]),
          ])
          await client.query(`update idempotency_keys set response_body = encode(convert_to($1, 'UTF8'), 'base64')`, [`{"a":"${texts[0]}"}`]) // prettier-ignore
          await client.query(`update effects set output_sealed = convert_to($1, 'UTF8')`, [`"${texts[0]}"`])
          expect(await columnsHolding(client, texts)).toEqual(['effects.output_sealed', 'idempotency_keys.response_body', 'memory.value_sealed']) // prettier-ignore
          await client.query('rollback')
        })
      })
    })

    describe('npm run rotate-key', () => {
      const program = fileURLToPath(new URL('../../../src/programs/rotate-key.ts', import.meta.url))
      function rotate(): {
        child: ChildProcess
        ended: Promise<{ code: number | null; output: string; error: string }>
      } {
        const child = spawn(process.execPath, [program, '--settle', '10'], {
          env: { ...programEnv(), DATA_DIR: home.stack.dataDir },
          stdio: ['ignore', 'pipe', 'pipe'],
        })
        let [output, error] = ['', '']
        child.stdout.on('data', (part) => (output += String(part)))
        child.stderr.on('data', (part) => (error += String(part)))
        return {
          child,
          ended: new Promise((resolve) => child.once('close', (code) => resolve({ code, output, error }))),
        }
      }

      test('killed at random while runs continue, ends with every value under one key, and nothing is lost', async () => {
        const [{ id: old }] = (await home.query('select id from data_keys')) as [{ id: string }]
        let isOver = false
        const runs: string[] = []
        const load = Promise.all(
          Array.from({ length: 2 }, async () => {
            while (!isOver) {
              const secret = randomUUID()
              const runId = await execute(secret)
              runs.push(runId)
              const run = await home.member.untilRun(runId, 'over', (each) => each.finished_at !== null)
              expect(run).toMatchObject({ status: 'completed', result: { given: secret } })
            }
          }),
        )
        const exits: (number | null)[] = []
        let last: Awaited<ReturnType<typeof rotate>['ended']>
        try {
          for (let kills = 0; kills < 4; kills += 1) {
            const rotation = rotate()
            const timer = setTimeout(() => rotation.child.kill('SIGKILL'), 500 + Math.random() * 4_000)
            exits.push((await rotation.ended).code)
            clearTimeout(timer)
          }
          last = await rotate().ended
        } finally {
          isOver = true
        }
        await load
        // A new key settles for ten seconds, so the first two rotations cannot end before their kills. A later rotation
        // continues with the same key, and may end before its kill.
        expect(exits.slice(0, 2)).toEqual([null, null])
        expect(exits.filter((code) => code !== null && code !== 0)).toEqual([])
        const { code, output, error } = last
        expect({ code, error: code === 0 ? '' : error }).toEqual({ code: 0, error: '' })
        expect(runs.length).toBeGreaterThan(5)
        const rotation = JSON.parse(output) as { data_key: string; unreadable: string[] }
        expect(rotation.unreadable).toEqual([])
        expect(await home.query('select id from data_keys where retired_at is null')).toEqual([
          { id: rotation.data_key },
        ])
        expect(rotation.data_key).not.toBe(old)

        const secrets = JSON.parse(readFileSync(join(home.stack.dataDir, 'secrets.json'), 'utf8')) as Record<
          string,
          string
        >
        const { opened, named } = await openAll(secrets['data_encryption_key'] as string)
        expect(named).toEqual(new Set([rotation.data_key]))
        expect(opened).toBeGreaterThan(50)
        expect(await home.owner.verify()).toMatchObject({ valid: true })
      })

      /** Opens every sealed value, like a process that has the installation's key. */
      async function openAll(key: string): Promise<{ opened: number; named: Set<string> }> {
        const { database_url: url } = home.member.bootstrap
        const context = createContext(testConfig(url, { DATA_ENCRYPTION_KEY: key }), 'tool')
        const named = new Set<string>()
        let opened = 0
        try {
          for (const column of sealedColumns) {
            const rows = await home.query<Row & { sealed: Buffer }>(
              `select *, ${column.isBase64 ? `decode(${column.column}, 'base64')` : column.column} as sealed
                  from ${column.table} where ${column.column} is not null`,
            )
            for (const row of rows) {
              named.add(keyIdOf(row.sealed))
              await context.sealer.open(column.binding(row), row.sealed)
              opened += 1
            }
          }
          return { opened, named }
        } finally {
          await context.close()
        }
      }
    })
  })
}
