import type { AnswerOf } from '../../api/routes/index.ts'
import { auditPath } from '../../contract/pages.ts'
import { Live } from '../parts/layout.tsx'
import { Table } from '../parts/list.tsx'
import { Badge } from '../parts/state.tsx'
import { Facts } from '../parts/values.tsx'
import { Message, Sentence } from '../parts/words.tsx'
import { isAtLeast, organizationId, type PersonsVisit, type Shown } from '../visit.ts'
import { problemPage } from './plain.tsx'

/* `/console/health`: whether the service and what it needs are well. Admins also see what to do. */

type Health = AnswerOf<'GET /health'>
type Checks = Health['checks']
type Secrets = AnswerOf<'GET /health/secrets'>

/** What each state means for people, and what the operator does about it. */
interface State {
  readonly means: string
  /** null if all is well. */
  readonly does: string | null
}

const fine = (means: string): State => ({ means, does: null })

const checks: { readonly [Name in keyof Checks]: readonly [string, Readonly<Record<Checks[Name], State>>] } =
  {
    database: [
      'Database',
      {
        ok: fine('It answers, and keeps what is written.'),
        down: {
          means: 'It does not answer: nothing can be decided or saved.',
          does: 'Start PostgreSQL, and check `DATABASE_URL`.',
        },
        disk_full: {
          means: 'Its disk is full: nothing new can be saved, so calls are denied.',
          does: 'Make room on the disk of PostgreSQL. It goes on by itself.',
        },
        read_only: {
          means: 'It refuses to write, so calls are denied.',
          does: 'Check whether `DATABASE_URL` leads to a standby, and make it the primary.',
        },
      },
    ],
    temporal: [
      'Temporal',
      {
        ok: fine('It answers, so runs go on.'),
        down: {
          means: 'It does not answer: runs do not go on. Calls of agents are decided all the same.',
          does: 'Start Temporal, and check `TEMPORAL_ADDRESS`. Runs go on by themselves.',
        },
      },
    ],
    worker: [
      'Worker',
      {
        ok: fine('At least one is at work.'),
        down: {
          means: 'None is at work: runs wait, and no message is sent.',
          does: 'Start one with `npm run worker`. What waits goes on by itself.',
        },
        unknown: {
          means: 'Nobody knows, because workers report in the database.',
          does: 'Mend the database first.',
        },
      },
    ],
    disk: [
      'Disk of the service',
      {
        ok: fine('It has room.'),
        full: {
          means: 'It is full: the log stops.',
          does: 'Make room on the disk of the log, or of the data folder of `npm start`.',
        },
      },
    ],
    audit: [
      'Audit logs',
      {
        ok: fine('No check has found a change.'),
        alarm: {
          means:
            'An audit log of this installation was changed from outside, or its checkpoint outside the database is lost.',
          does: 'Keep the database as it is. The log of the service names the organization.',
        },
      },
    ],
  }

/** `GET /console/health` */
export async function healthPage(visit: PersonsVisit): Promise<Shown> {
  const isAdmin = isAtLeast(visit, 'admin')
  const [read, files, secrets] = await Promise.all([
    visit.api.call('GET /health'),
    visit.api.call('GET /integrations'),
    isAdmin
      ? visit.api.call('GET /health/secrets', { query: { organization_id: organizationId(visit) } })
      : null,
  ])
  if (!read.ok) return problemPage(read, visit.place)
  const health = read.body
  const isWell = health.status === 'ok' && (secrets === null || (secrets.ok && secrets.body.status === 'ok'))
  // Each check of another service's secrets costs a request there.
  const isLive = secrets?.ok !== true || secrets.body.backend === 'db'
  return {
    status: 200,
    title: 'Health',
    main: (
      <article class="page">
        <header class="headline">
          <h1>Health</h1>
          <p>
            Whether Countersign and what it needs are well now.
            {isLive ? ' The page checks again while it is open.' : ' Load the page to check again.'}
          </p>
        </header>
        <Live
          name="health"
          version={JSON.stringify([health, secrets?.ok === true ? secrets.body : null])}
          data-poll={isLive ? '' : undefined}
        >
          <div class="stack">
            <p class={isWell ? 'note' : 'alert'} role="status">
              <strong>{isWell ? 'All is well.' : 'Something is not well.'}</strong>
              {isWell || isAdmin
                ? null
                : ' The operator of the service can mend it. Ask an admin of your organization to tell them.'}
            </p>
            <Table
              label="Checks"
              head={['Part', 'State', 'What it means']}
              rows={[
                ...(Object.keys(checks) as (keyof Checks)[]).map((name) => rowOf(name, health, isAdmin)),
                ...(secrets?.ok === true ? [secretsRow(secrets.body)] : []),
              ]}
            />
          </div>
        </Live>
        {isAdmin ? (
          <p>
            <a href={auditPath}>Verify the audit log of this organization</a>
          </p>
        ) : null}
        <Facts facts={[['Version', files.ok ? (files.body.files[0]?.version ?? null) : null]]} />
      </article>
    ),
  }
}

const StateBadge = ({ isFine }: { isFine: boolean }) =>
  isFine ? <Badge tone="good" word="Well" /> : <Badge tone="bad" word="Not well" />

function rowOf(name: keyof Checks, { checks: found }: Health, isAdmin: boolean) {
  const [title, states] = checks[name]
  const { means, does } = (states as Readonly<Record<string, State>>)[found[name]] ?? {
    means: `It says ${found[name]}.`,
    does: 'Look into the log.',
  }
  return [
    title,
    <StateBadge isFine={does === null} />,
    <>
      {means}
      {does === null || !isAdmin ? null : (
        <p>
          What the operator does: <Sentence text={does} />
        </p>
      )}
    </>,
  ]
}

function secretsRow({ status, backend, checks: found }: Secrets) {
  const wrong = Object.values(found).filter((each) => each !== 'ok')
  const where = backend === 'db' ? 'They are sealed in the database.' : 'They are in AWS Secrets Manager.'
  return [
    'Credentials of connections',
    <StateBadge isFine={status === 'ok'} />,
    wrong.length === 0 ? (
      where
    ) : (
      <>
        {where}{' '}
        {wrong.map((each) => (
          <>
            <Message text={each} />{' '}
          </>
        ))}
      </>
    ),
  ]
}
