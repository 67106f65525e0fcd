import type { AnswerOf } from '../../api/routes/index.ts'
import type { PersonsVisit } from '../visit.ts'
import { OnceField, PostForm } from './layout.tsx'
import { actions, Table } from './list.tsx'
import { Time } from './time.tsx'
import { Words } from './words.tsx'

/* The earlier versions of a rule, or of one that labels. */

type Version = AnswerOf<'GET /organizations/{id}/rules/{rule}/versions'>['data'][number]

const changeWords = ({ change, restored_from: from }: Version): string =>
  from === null
    ? { created: 'made', updated: 'changed', deleted: 'deleted' }[change]
    : `restored from version ${from}`

export function Versions(props: {
  visit: PersonsVisit
  /** The page of the rule. */
  path: string
  versions: readonly Version[]
  /** Whether the first one holds now. */
  isNewest: boolean
  mayRestore: boolean
}) {
  const { visit, path, versions, isNewest, mayRestore } = props
  return (
    <section class="stack" aria-labelledby="versions">
      <h2 id="versions">Versions</h2>
      <Table
        label="Versions"
        head={['Version', 'By', 'When', ...(mayRestore ? [actions] : [])]}
        rows={versions.map((version, index) => [
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
                version.change === 'deleted' || (isNewest && index === 0) ? null : (
                  <Restore visit={visit} path={path} version={version.version} />
                ),
              ]
            : []),
        ])}
      />
    </section>
  )
}

const Restore = ({ visit, path, version }: { visit: PersonsVisit; path: string; version: number }) => (
  <PostForm action={path} token={visit.token}>
    <OnceField />
    <input type="hidden" name="version" value={String(version)} />
    <button name="action" value="restore">
      Restore<span class="unseen">{` version ${version}`}</span>
    </button>
  </PostForm>
)
