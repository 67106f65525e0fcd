import { effectWord } from '../../policy/explain.ts'
import { settingsPath } from '../../contract/pages.ts'
import type { Form } from '../visit.ts'
import { Field, Select } from './form.tsx'
import { OnceField, PostForm } from './layout.tsx'
import { actions, Table } from './list.tsx'
import { SettingCard, type SettingsView } from './setting.tsx'
import type { Settings } from './setting-words.ts'
import { capital, Words } from './words.tsx'

/* The setting `external_tools`: what tools of agents do, and which labels their outputs get. */

type Classes = Settings['external_tools']

export const classLabels = {
  tool: 'Tool',
  side_effect: 'What it does',
  output_labels: 'Labels of what it returns',
}

/** The refusal of the API names the field of the setting. */
export const classAliases = { external_tools: 'tool' }

export function ClassedTools({ view }: { view: SettingsView }) {
  const classes = Object.entries(view.settings.external_tools).toSorted(([a], [b]) => (a < b ? -1 : 1))
  return (
    <>
      {classes.length === 0 ? null : (
        <Table
          label="Classed tools of agents"
          head={['Tool', 'What it does', 'Labels of what it returns', ...(view.mayChange ? [actions] : [])]}
          rows={classes
            .slice(0, mostShown)
            .map(([name, { side_effect: does, output_labels: labels = [] }]) => [
              <code>
                <Words text={name} />
              </code>,
              does === undefined ? 'as usual' : capital(effectWord(does)),
              labels.length === 0 ? 'as usual' : <Words text={labels.join(', ')} />,
              ...(view.mayChange ? [<Remove name={name} view={view} />] : []),
            ])}
        />
      )}
      {classes.length > mostShown ? (
        <p class="quiet">{`The first ${mostShown} of ${classes.length} tools. The API has all of them.`}</p>
      ) : null}
    </>
  )
}

export const ClassesSetting = ({ view }: { view: SettingsView }) => (
  <SettingCard
    name="external_tools"
    title="Classes of agents’ tools"
    now={String(Object.keys(view.settings.external_tools).length)}
    effect="Agents bring their own tools. Rules about what a call does, and about labels, need to know what such a tool does."
    view={view}
  >
    <Field
      name="tool"
      most={200}
      help="The whole name, such as WebFetch, or the tools of a server: mcp__board__get_*"
      filled={view.filled}
    />
    <Select
      name="side_effect"
      options={[
        ['', 'as usual'],
        ['read', capital(effectWord('read'))],
        ['write', capital(effectWord('write'))],
        ['egress', capital(effectWord('egress'))],
      ]}
      filled={view.filled}
    />
    <Field
      name="output_labels"
      most={4_000}
      optional={true}
      help="Separate them by commas. Later calls of the agent carry them."
      filled={view.filled}
    />
    <p class="note">
      Rules about side effects, labels and tools that nobody has classed can begin or stop to match its calls.
    </p>
    <button class="primary" name="action" value="class">
      Class the tool
    </button>
  </SettingCard>
)

const mostShown = 200

const Remove = ({ name, view }: { name: string; view: SettingsView }) => (
  <PostForm action={settingsPath} token={view.visit.token} class="links">
    <OnceField />
    <input type="hidden" name="setting" value="external_tools" />
    <input type="hidden" name="tool" value={name} />
    <button name="action" value="unclass" class="danger">
      Remove<span class="unseen">{` ${name}`}</span>
    </button>
  </PostForm>
)

/** The setting as the form wants it. */
export function classesOf(form: Form, now: Classes): Classes {
  const tool = (form.get('tool') ?? '').trim()
  const { [tool]: _, ...others } = now
  if (form.get('action') === 'unclass') return others
  const labels = (form.get('output_labels') ?? '').split(/[\s,;]+/).filter((each) => each !== '')
  const does = form.get('side_effect') ?? ''
  const told = {
    ...(does === '' ? {} : { side_effect: does }),
    ...(labels.length === 0 ? {} : { output_labels: labels }),
  }
  return { ...others, [tool]: told as Classes[string] }
}
