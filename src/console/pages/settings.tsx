import { freezePath, providerPath, rulesPath, settingsPath } from '../../contract/pages.ts'
import { waitingChanges, WaitingNote } from '../parts/change.tsx'
import {
  classAliases,
  ClassedTools,
  classesOf,
  ClassesSetting,
  classLabels,
} from '../parts/classed-tools.tsx'
import { changedSince, empty, labelled, onceOf, Refused, Told, type Filled } from '../parts/form.tsx'
import { firstEffects } from '../parts/first-effects.ts'
import { limitLabels, Limits, limitsOf } from '../parts/limits.tsx'
import { ManagedNote, release, released } from '../parts/managed.tsx'
import { Setting, type SettingsView } from '../parts/setting.tsx'
import { settingSections, settingTitles, valueOf, type Settings } from '../parts/setting-words.ts'
import { nothingDone } from '../parts/waiting.tsx'
import { OrganizationName } from '../parts/words.tsx'
import {
  isAtLeast,
  organizationId,
  waitsFor,
  type Form,
  type PersonsVisit,
  type Result,
  type Shown,
} from '../visit.ts'
import { problemPage } from './plain.tsx'

/* `/console/settings`: admins see what holds and how much is used. Owners change it. */

const labels = { ...settingTitles, ...classLabels, ...limitLabels }

/** `GET /console/settings` */
export async function settingsPage(visit: PersonsVisit, given: Filled = empty): Promise<Shown> {
  const filled = labelled(given, labels, classAliases)
  const params = { id: organizationId(visit) }
  const isOwner = isAtLeast(visit, 'owner')
  const [settings, quota, changes, first] = await Promise.all([
    visit.api.call('GET /organizations/{id}/governance', { params }),
    visit.api.call('GET /organizations/{id}/quota', { params }),
    waitingChanges(visit),
    isOwner ? firstEffects(visit) : new Map<string, string>(),
  ])
  if (!settings.ok) return problemPage(settings, visit.place)
  if (!quota.ok) return problemPage(quota, visit.place)
  const { managed_by: managed } = settings.body
  const mayChange = isOwner && managed === null
  const view: SettingsView = { visit, settings: settings.body, filled, mayChange }
  return {
    status: filled.problem?.status ?? 200,
    title: 'Settings and limits',
    main: (
      <article class="page">
        <header class="headline">
          <h1>Settings and limits</h1>
          <p class="quiet">
            <OrganizationName name={visit.person.organization?.name ?? ''} />
          </p>
          <nav class="links" aria-label="Sections">
            {settingSections.map(([id, title]) => (
              <a href={`#${id}`}>{title}</a>
            ))}
            <a href="#limits">Limits</a>
          </nav>
          {isOwner ? null : <p>An owner changes settings. Ask one.</p>}
        </header>
        <Refused filled={filled} />
        <Told visit={visit} results={{ released }} />
        <ManagedNote
          what="Each setting"
          managed={managed}
          visit={visit}
          action={isOwner ? settingsPath : null}
        />
        <WaitingNote changes={changes.get('settings')} now={visit.now} />
        {settingSections.map(([id, title, settings]) => (
          <section class="stack" aria-labelledby={id}>
            <h2 id={id}>{title}</h2>
            <SectionLinks id={id} visit={visit} />
            <div class="card settings">
              {Object.entries(settings).map(([name, words]) => (
                <Setting name={name} words={words} view={view} first={first.get(name) ?? null} />
              ))}
              {id === 'tools' ? <ClassesSetting view={view} /> : null}
            </div>
            {id === 'tools' ? <ClassedTools view={view} /> : null}
          </section>
        ))}
        <Limits
          quota={quota.body}
          visit={visit}
          filled={filled}
          mayChange={isOwner && quota.body.overrides_by !== 'operator'}
        />
      </article>
    ),
  }
}

/** Where more about a section stands. */
function SectionLinks({ id, visit }: { id: string; visit: PersonsVisit }) {
  if (id === 'approvals')
    return (
      <p>
        <a href={rulesPath}>Rules</a> say which calls wait. <a href={freezePath}>Freeze</a> stops everything.
      </p>
    )
  if (id === 'people' && isAtLeast(visit, 'owner') && visit.person.organization?.personal === false)
    return (
      <p>
        <a href={providerPath}>Company sign-in</a> sets up the provider, and tests it.
      </p>
    )
  return null
}

/** `POST /console/settings` */
export async function changeSettings(visit: PersonsVisit, form: Form): Promise<Shown> {
  const done = await change(visit, form)
  if (!done.ok) return settingsPage(visit, { form, problem: done })
  const action = form.get('action') ?? ''
  if (action === 'release') return { redirect: `${settingsPath}?done=released` }
  const name = action === 'limits' ? 'limits' : (form.get('setting') ?? '')
  const place = name === 'limits' ? 'limits' : `setting-${name}`
  return { redirect: waitsFor(done.body) ?? `${settingsPath}?done=${name}#${place}` }
}

async function change(visit: PersonsVisit, form: Form): Promise<Result<unknown>> {
  const params = { id: organizationId(visit) }
  const action = form.get('action') ?? ''
  if (action === 'limits') {
    const quota = await visit.api.call('GET /organizations/{id}/quota', { params, only: ['overrides'] })
    const refused = quota.ok ? changedSince(form, quota.body.overrides) : quota
    if (refused !== null) return refused
    return visit.api.call('PATCH /organizations/{id}/quota', {
      params,
      body: limitsOf(form),
      ...onceOf(form),
    })
  }
  if (action === 'release') return release(visit, { kind: 'organization', name: 'organization' }, form)
  const now = await visit.api.call('GET /organizations/{id}/governance', { params })
  if (!now.ok) return now
  const name = form.get('setting') ?? ''
  if (action === 'class' || action === 'unclass')
    return save(visit, form, { external_tools: classesOf(form, now.body.external_tools) })
  if (action !== 'save' || !Object.hasOwn(settingTitles, name)) return nothingDone
  const refused = changedSince(form, now.body[name as keyof Settings])
  if (refused !== null) return refused
  const text = (form.get(name) ?? '').trim()
  return save(visit, form, { [name]: valueOf(name, text, now.body[name as keyof Settings]) })
}

const save = (visit: PersonsVisit, form: Form, body: Partial<Settings>) =>
  visit.api.call('PATCH /organizations/{id}/governance', {
    params: { id: organizationId(visit) },
    body,
    ...onceOf(form),
  })
