import { until } from '../../stack/until.ts'
import { proof, type Proofs, type World } from './world.ts'

type Pair = readonly [unknown, unknown]

const taking = (steps: readonly object[]) => ({
  inputs: { text: { type: 'string' } },
  steps,
  result: { text: '{{input.text}}' },
})
const quick = taking([{ id: 's', tool: 'memory_get', params: { key: 'k' } }])
const slow = taking([{ id: 's', wait: { seconds: 3_600 } }])
const everyHour = { every_seconds: 3_600 }
const bearer = { verify: 'bearer' }
const firstSecret = 'the-first-of-two-secrets'

interface Made {
  readonly id: string
  readonly path: string
  readonly body: { readonly id: string; readonly secret: string | null }
}

/** Makes a trigger with these fields, or changes one so. `usual` has the fields without which none can be made. */
async function made(
  world: World,
  usual: object,
  fields: object,
  way: string,
  definition: object = quick,
): Promise<Made> {
  const workflow = await world.workflow(definition)
  const { id: account } = await world.ok('owner', 'POST', `${world.path}/service-accounts`, { name: 'a' })
  const base = { name: 't', version: 'latest', service_account: account, ...usual }
  const created = way === 'POST' ? { ...base, ...fields } : base
  const all = `/workflows/${workflow}/triggers`
  const first = await world.ok('owner', 'POST', all, created)
  const path = `${all}/${first.id}`
  const body = way === 'POST' ? first : await world.ok('owner', 'PATCH', path, fields)
  return { id: first.id, path, body: { ...body, secret: body.secret ?? first.secret } }
}

const deliver = (world: World, { id }: Made, secret: string) =>
  world.send({ key: secret }, 'POST', `/deliveries/${id}`, { text: 'hi' })

const tried = (world: World, { path }: Made) => world.ok('owner', 'POST', `${path}/test`, {})

/** A field of a schedule, which replaces the one before. */
const ofSchedule = (
  name: string,
  values: Pair,
  seen: Pair,
  read: (due: string[]) => unknown,
  more: object = {},
): Proofs => ({
  [`schedule.${name}`]: proof(values, seen, async (world, value, way) => {
    const schedule = { ...more, [name]: value }
    const trigger = await made(world, { schedule: everyHour }, { schedule }, way)
    return read((await tried(world, trigger)).next_due_at)
  }),
})

/** A field of a webhook; the answer to a message with `firstSecret`. */
const ofWebhook = (name: string, values: Pair, seen: Pair, fieldsOf: (value: unknown) => object): Proofs => ({
  [name]: proof(values, seen, async (world, value, way) => {
    const trigger = await made(world, { webhook: bearer, secret: firstSecret }, fieldsOf(value), way)
    return (await deliver(world, trigger, firstSecret)).status
  }),
})

const usualPoll = {
  ...{ tool: 'memory_get', params: { key: 'rows' }, every_seconds: 3_600, first: 'all' },
  ...{ list: '{{ output.value }}', id: '{{ item.id }}' },
}
/** Finds nothing. */
const emptyPoll = { ...usualPoll, params: { key: 'none' }, list: '{{ output.value ?? [] }}' }
const storedRows = ['b', 'a'].map((text, id) => ({ id, text }))

/** A field of a poll; what is seen of its first poll. */
const ofPoll = (
  name: string,
  values: Pair,
  seen: Pair,
  read: (world: World, trigger: Made) => Promise<unknown>,
  more: (value: unknown) => object = () => ({}),
): Proofs => ({
  [`poll.${name}`]: proof(values, seen, async (world, value, way) => {
    await world.ok('owner', 'PUT', '/memory/rows', { value: storedRows })
    const fields = {
      poll: { ...usualPoll, ...more(value), [name.replace('.*', '')]: value },
      inputs: { text: '{{ item.text ?? item }}' },
    }
    return read(world, await made(world, { poll: emptyPoll }, fields, way))
  }),
})

async function afterPoll(world: World, { id, path }: Made): Promise<{ states: string[]; texts: string[] }> {
  const { pool } = world.api.stack.context
  await until('it has polled', async () => {
    const { rows } = await pool.query(
      `select polled_at is not null and not exists (select from trigger_firings where trigger_id = $1 and state = 'waiting')
              or exists (select from trigger_firings where trigger_id = $1 and state = 'failed') as done
       from triggers where id = $1`,
      [id],
    )
    return rows[0].done
  })
  const { data } = await world.ok('member', 'GET', `${path}/firings`)
  const firings: { state: string; run_id: string | null }[] = data.toReversed()
  const runs = firings.flatMap(({ run_id }) => run_id ?? [])
  const texts = runs.map(async (run) => (await world.ok('owner', 'GET', `/runs/${run}`)).inputs.text)
  return { states: firings.map(({ state }) => state), texts: await Promise.all(texts) }
}
const pollTexts = async (world: World, trigger: Made) => (await afterPoll(world, trigger)).texts
const pollStates = async (world: World, trigger: Made) => (await afterPoll(world, trigger)).states

/** Makes the schedule due twice, and returns how the firings ended. */
async function statesAfter(
  world: World,
  { id, path }: Made,
  secondsAgo: readonly number[],
): Promise<string[]> {
  const { pool } = world.api.stack.context
  for (const seconds of secondsAgo) {
    await pool.query('update triggers set next_due_at = now() - make_interval(secs => $2) where id = $1', [
      id,
      seconds,
    ])
    await pool.query(`update lanes set due_at = now() where kind = 'trigger' and id = $1`, [id])
    await until('it is planned', async () => {
      const { rows } = await pool.query(
        `select next_due_at > now() and not exists (select from trigger_firings where trigger_id = $1 and state = 'waiting')
                as done from triggers where id = $1`,
        [id],
      )
      return rows[0].done
    })
  }
  const { data } = await world.ok('member', 'GET', `${path}/firings`)
  return data.map(({ state }: { state: string }) => state)
}

const shownHours = (due: string[]) => due[0]?.slice(11, 16)

export const triggerProofs: Proofs = {
  name: proof(['a', 'b'], ['a', 'b'], async (world, name, way) => {
    const { path } = await made(world, { schedule: everyHour }, { name }, way)
    return (await world.ok('member', 'GET', path)).name
  }),
  service_account: proof([0, 1], [true, false], async (world, place, way) => {
    const other = await world.ok('owner', 'POST', `${world.path}/service-accounts`, { name: 'b' })
    const fields = place === 0 ? { service_account: other.id } : {}
    const trigger = await made(world, { webhook: bearer, secret: firstSecret }, fields, way)
    const { body } = await deliver(world, trigger, firstSecret)
    return (await world.ok('owner', 'GET', `/runs/${body.run_id}`)).requested_by === other.id
  }),
  version: proof<unknown>([1, 'latest'], [1, 2], async (world, version, way) => {
    const trigger = await made(world, { webhook: bearer, secret: firstSecret }, { version }, way)
    const workflow = trigger.path.split('/')[2] ?? ''
    await world.ok('member', 'PUT', `/workflows/${workflow}`, { definition: { ...quick, result: {} } })
    const { body } = await deliver(world, trigger, firstSecret)
    return (await world.ok('owner', 'GET', `/runs/${body.run_id}`)).workflow_version
  }),
  'inputs.*': proof(
    ['a', 'b'],
    [{ text: 'a' }, { text: 'b' }],
    async (world, text, way) =>
      (await tried(world, await made(world, { schedule: everyHour }, { inputs: { text } }, way))).inputs,
  ),
  untrusted: proof<boolean>([true, false], [['text'], []], async (world, untrusted, way) => {
    const inputs = { text: 'x' }
    const trigger = await made(
      world,
      { webhook: bearer, secret: firstSecret, inputs, untrusted: !untrusted },
      {
        untrusted,
      },
      way,
    )
    const { body } = await deliver(world, trigger, firstSecret)
    const { rows } = await world.api.stack.context.pool.query('select input_labels from runs where id = $1', [
      body.run_id,
    ])
    return Object.keys(rows[0].input_labels)
  }),
  ...ofSchedule('cron', ['5 * * * *', '6 * * * *'], [':05', ':06'], (due) => due[0]?.slice(13, 16)),
  ...ofSchedule(
    'every_seconds',
    [60, 120],
    [60, 120],
    ([one = '', two = '']) => (Date.parse(two) - Date.parse(one)) / 1_000,
  ),
  ...ofSchedule('time_zone', ['Asia/Tokyo', 'Asia/Kolkata'], ['00:00', '03:30'], shownHours, {
    cron: '0 9 * * *',
  }),
  'schedule.catch_up': proof(
    ['none', 'last'],
    [['skipped'], ['started', 'skipped']],
    async (world, catch_up, way) => {
      const trigger = await made(
        world,
        { schedule: everyHour },
        { schedule: { ...everyHour, catch_up } },
        way,
      )
      return statesAfter(world, trigger, [3 * 3_600 + 600])
    },
  ),
  'schedule.overlap': proof(
    ['skip', 'allow'],
    [
      ['skipped', 'started'],
      ['started', 'started'],
    ],
    async (world, overlap, way) => {
      const trigger = await made(
        world,
        { schedule: everyHour },
        { schedule: { ...everyHour, overlap } },
        way,
        slow,
      )
      return statesAfter(world, trigger, [10, 0])
    },
  ),
  ...ofPoll('tool', ['memory_get', 'file_read'], [['started', 'started'], ['failed']], pollStates, (tool) =>
    tool === 'file_read' ? { params: { path: 'x' }, list: '{{ output.rows }}' } : {},
  ),
  ...ofPoll('params.*', [{ key: 'rows' }, { key: 'none' }], [['started', 'started'], ['failed']], pollStates),
  ...ofPoll(
    'list',
    ['{{ output.value }}', '{{ slice(output.value, 0, 1) }}'],
    [['b', 'a'], ['b']],
    pollTexts,
  ),
  ...ofPoll('id', ['{{ item.id }}', '{{ item.nr }}'], [['started', 'started'], ['failed']], pollStates),
  ...ofPoll(
    'order',
    [null, '{{ item.text }}'],
    [
      ['b', 'a'],
      ['a', 'b'],
    ],
    pollTexts,
  ),
  ...ofPoll('first', ['skip', 'all'], [['skipped'], ['started', 'started']], pollStates),
  ...ofPoll('every_seconds', [600, 3_600], [true, false], async (world, trigger) => {
    await afterPoll(world, trigger)
    const { poll } = await world.ok('member', 'GET', trigger.path)
    return Date.parse(poll.next_due_at) - Date.now() < 700_000
  }),
  ...ofWebhook('webhook.verify', ['bearer', 'github'], [202, 401], (verify) => ({ webhook: { verify } })),
  ...ofWebhook('webhook.answer', ['accepted', 'result'], [202, 200], (answer) => ({
    webhook: { ...bearer, answer },
  })),
  ...ofWebhook('secret', [firstSecret, 'the-second-of-two-secrets'], [202, 401], (secret) => ({ secret })),
  ...ofWebhook('new_secret', [undefined, true], [202, 401], (new_secret) => ({ new_secret })),
  ...ofWebhook('paused', [false, true], [202, 409], (paused) => ({ paused })),
}
