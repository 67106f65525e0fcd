import type { VNode } from 'preact'
import type { AnswerOf } from '../../api/routes/index.ts'
import type { PersonsVisit, Result } from '../visit.ts'
import { OnceField, PostForm } from './layout.tsx'
import { actions, Pager, Table } from './list.tsx'
import { Time } from './time.tsx'
import { Message, Words } from './words.tsx'

/* The earlier versions of a rule, or of one that labels. */

type Versions = AnswerOf<'GET /organizations/{id}/rules/{rule}/versions'>
type Version = Versions['data'][number]

/** Which page of the versions the address asks for. */
export const versionsQuery = ({ query }: PersonsVisit) => {
  const cursor = query.get('versions')
  return { limit: '20', ...(cursor === null ? {} : { cursor }) }
}

const changeWords = ({ change, restored_from: from }: Version): string =>
  from === null
    ? { created: 'made', updated: 'changed', deleted: 'deleted' }[change]
    : `restored from version ${from}`

export function Versions(props: {
  visit: PersonsVisit
  /** The page of the rule. */
  path: string
  versions: Versions
  mayRestore: boolean
}) {
  const { visit, path, versions, mayRestore } = props
  const cursor = visit.query.get('versions')
  const isPresent = (index: number) => cursor === null && index === 0
  return (
    <>
      <section class="stack" aria-labelledby="versions">
        <h2 id="versions">Versions</h2>
        <Table
          label="Versions"
          head={['Version', 'By', 'When', ...(mayRestore ? [actions] : [])]}
          rows={versions.data.map((version, index) => [
            <>
              <a href={`${path}?version=${version.version}#version`}>{`Version ${version.version}`}</a>{' '}
              <span class="quiet">{changeWords(version)}</span>
            </>,
            <>
              <Words text={version.created_by_email} most={254} />
              {version.approved_by_email === null ? null : (
                <>
                  , approved by <Words text={version.approved_by_email} most={254} />
                </>
              )}
            </>,
            <Time at={version.created_at} now={visit.now} />,
            ...(mayRestore
              ? [
                  version.change === 'deleted' || isPresent(index) ? null : (
                    <Restore visit={visit} path={path} version={version.version} />
                  ),
                ]
              : []),
          ])}
        />
      </section>
      <Pager
        path={path}
        chosen={{ versions: cursor ?? undefined }}
        cursor="versions"
        next={versions.next_cursor}
        words={{ first: 'Newest versions', next: 'Older versions' }}
      />
    </>
  )
}

/** The version that the address asks for. `shown`: its rule; null for a version that deleted it. */
export const OneVersion = ({ read, shown }: { read: Result<{ version: number }>; shown: VNode | null }) => (
  <section class="card stack" id="version" aria-labelledby="version-title">
    <h2 id="version-title">{`Version ${read.ok ? read.body.version : ''}`}</h2>
    {read.ok ? (
      (shown ?? <p>The rule was deleted.</p>)
    ) : (
      <p>
        <Message text={read.message} />
      </p>
    )}
  </section>
)

const Restore = ({ visit, path, version }: { visit: PersonsVisit; path: string; version: number }) => (
  <PostForm action={path} token={visit.token}>
    <OnceField />
    <input type="hidden" name="version" value={String(version)} />
    <button name="action" value="restore">
      Restore<span class="unseen">{` version ${version}`}</span>
    </button>
  </PostForm>
)
