import type { AnswerOf } from '../../api/routes/index.ts'
import {
  inboxPath,
  notificationsPath,
  settingsPath,
  webhookPath,
  webhooksPath,
} from '../../contract/pages.ts'
import { Cause, eventWords } from '../parts/events.tsx'
import { Live } from '../parts/layout.tsx'
import {
  addressOf,
  Choice,
  chosenOf,
  Empty,
  Field,
  Filters,
  Pager,
  Table,
  type Chosen,
} from '../parts/list.tsx'
import { Badge, type Tone } from '../parts/state.tsx'
import { Time } from '../parts/time.tsx'
import { OrganizationName, Words } from '../parts/words.tsx'
import { organizationId, type PersonsVisit, type Shown } from '../visit.ts'
import { problemPage } from './plain.tsx'
import { runsPath } from './runs.tsx'

/* `/console/notifications`: admins see who was told what by which way, and what did not arrive. */

type Message = AnswerOf<'GET /organizations/{id}/notifications'>['data'][number]

const filters = ['recipient', 'state', 'channel', 'approval_id'] as const

/** `GET /console/notifications` */
export async function notificationsPage(visit: PersonsVisit): Promise<Shown> {
  const chosen = chosenOf(visit.query, [...filters, 'cursor'])
  const params = { id: organizationId(visit) }
  const listed = await visit.api.call('GET /organizations/{id}/notifications', {
    params,
    query: { ...chosen, limit: '50' },
  })
  if (!listed.ok) return problemPage(listed, visit.place)
  const { data, next_cursor: next } = listed.body
  const hosts = data.some(({ channel }) => channel === 'webhook') ? await hostsOf(visit) : new Map()
  return {
    status: 200,
    title: 'Notifications',
    main: (
      <article class="page">
        <header class="headline">
          <h1>Notifications</h1>
          <p class="quiet">
            <OrganizationName name={visit.person.organization?.name ?? ''} />
          </p>
          <p>
            Who was told what: in Slack, by mail, and programs by webhooks. The text of a message is not kept.
          </p>
        </header>
        <p class="links">
          <a
            href={addressOf(notificationsPath, { state: 'failed' })}
            {...(chosen.state === 'failed' ? { 'aria-current': 'true' as const } : {})}
          >
            What did not arrive
          </a>
          <a href={webhooksPath}>Webhooks</a>
          <a href={settingsPath}>Turn mails and Slack messages on or off</a>
        </p>
        <Filters path={notificationsPath} chosen={chosen} names={filters} title="Filter">
          <Field name="recipient" label="Address of the person" chosen={chosen} />
          <Choice name="state" label="State" chosen={chosen} options={stateOptions} />
          <Choice name="channel" label="Way" chosen={chosen} options={Object.entries(ways)} />
          {chosen.approval_id === undefined ? null : (
            <Field name="approval_id" label="Approval" chosen={chosen} />
          )}
        </Filters>
        <Messages messages={data} hosts={hosts} chosen={chosen} now={visit.now} />
        <Pager
          path={notificationsPath}
          chosen={chosen}
          cursor="cursor"
          next={next}
          words={{ first: 'Newest messages', next: 'Older messages' }}
        />
      </article>
    ),
  }
}

const ways: Readonly<Record<Message['channel'], string>> = {
  slack: 'Slack',
  mail: 'Mail',
  webhook: 'Webhook',
}

const byWay: Readonly<Record<Message['channel'], string>> = {
  slack: 'in Slack',
  mail: 'by mail',
  webhook: 'by webhook',
}

const states: Readonly<Record<Message['state'], readonly [Tone, string]>> = {
  pending: ['wait', 'Waits'],
  sent: ['good', 'Sent'],
  updated: ['good', 'Sent, and updated'],
  failed: ['bad', 'Did not arrive'],
}
const stateOptions = Object.entries(states).map(([state, [, word]]) => [state, word] as const)

/** The hosts of webhooks, by id: an organization has at most 20. */
async function hostsOf(visit: PersonsVisit): Promise<ReadonlyMap<string, string>> {
  const params = { id: organizationId(visit) }
  const listed = await visit.api.call('GET /organizations/{id}/webhooks', { params, query: { limit: '50' } })
  return new Map(listed.ok ? listed.body.data.map(({ id, host }) => [id, host]) : [])
}

interface MessagesShown {
  readonly messages: readonly Message[]
  readonly hosts: ReadonlyMap<string, string>
  readonly chosen: Chosen
  readonly now: Date
}

function Messages({ messages, hosts, chosen, now }: MessagesShown) {
  const isFiltered = filters.some((name) => chosen[name] !== undefined)
  return (
    <Live
      name="messages"
      version={messages.map(({ id, state, attempts }) => `${id}${state}${attempts}`).join()}
      data-poll={messages.some(({ state }) => state === 'pending') ? '' : undefined}
    >
      {messages.length > 0 ? (
        <Table
          label="Messages"
          head={['What', 'To', 'State', 'When']}
          rows={messages.map((message) => rowOf(message, hosts, now))}
        />
      ) : isFiltered ? (
        <Empty title="No message is like this.">
          <a href={notificationsPath}>Show all messages</a>, or choose something else.
        </Empty>
      ) : (
        <Empty title="Nobody was told anything yet.">
          When a call waits, the people who can decide it get a message in Slack at once, if the organization
          is connected to Slack, and a mail after ten minutes.
        </Empty>
      )}
    </Live>
  )
}

const rowOf = (message: Message, hosts: ReadonlyMap<string, string>, now: Date) => [
  <>
    {eventWords(message.event)}
    <About message={message} />
  </>,
  <>
    <To message={message} hosts={hosts} />
    <p class="quiet small">{byWay[message.channel]}</p>
  </>,
  <State message={message} />,
  <Time at={message.sent_at ?? message.created_at} now={now} />,
]

/** The page of what it is about. A call with an unknown outcome is settled on the page of its run. */
function About({ message: { approval_id: approval, run_id: run } }: { message: Message }) {
  const called = /^(run_\w+)\//.exec(approval ?? '')?.[1] ?? run
  if (called !== null)
    return (
      <>
        : <a href={`${runsPath}/${called}`}>the run</a>
      </>
    )
  return approval === null ? null : (
    <>
      : <a href={`${inboxPath}/${approval}`}>the approval</a>
    </>
  )
}

function To({ message, hosts }: { message: Message; hosts: ReadonlyMap<string, string> }) {
  const { channel, recipient, recipient_email: email } = message
  const host = hosts.get(recipient)
  if (channel !== 'webhook')
    return (
      <a href={addressOf(notificationsPath, { recipient })}>
        <Words text={email ?? 'a deleted account'} most={254} />
      </a>
    )
  if (host === undefined) return <span class="quiet">a webhook that was deleted</span>
  return (
    <a href={webhookPath(recipient)}>
      <Words text={host} most={253} />
    </a>
  )
}

function State({ message: { state, attempts, last_error: error } }: { message: Message }) {
  const [tone, word] = states[state]
  return (
    <>
      <Badge tone={tone} word={state === 'pending' && attempts > 0 ? 'Tried again' : word} />
      {error === null || tone === 'good' ? null : (
        <p class="quiet small">
          <Cause error={error} />
        </p>
      )}
    </>
  )
}
