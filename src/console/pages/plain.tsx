import type { ComponentChild } from 'preact'
import { PostForm } from '../parts/layout.tsx'
import { Alert, Message, Words } from '../parts/words.tsx'
import { ownPlace, type Form, type Organization, type Page, type Problem } from '../visit.ts'
import { homePath, providerSignInPath, secondFactorPath, signInPath } from '../../contract/pages.ts'

export interface Refusal {
  readonly status: number
  readonly message: string
}

export function plainPage(title: string, problem: Refusal | null, contents: ComponentChild): Page {
  return {
    status: problem?.status ?? 200,
    title,
    main: (
      <article class="narrow card">
        <h1>{title}</h1>
        <Alert message={problem?.message ?? null} />
        {contents}
      </article>
    ),
  }
}

/** In development, a stack without a mail server keeps the mails. */
export const KeptMails = ({ folder }: { folder: string | null }) =>
  folder === null ? null : (
    <p class="note">
      This is a development stack without a mail server: each mail is a file in{' '}
      <code class="whole">
        <Words text={folder} most={400} />
      </code>
      , on the machine of the service.
    </p>
  )

const titles: Readonly<Record<number, string>> = {
  403: 'This is not yours to see',
  404: 'There is nothing here',
  429: 'Too many requests',
  503: 'The service cannot answer now',
}

const helps: Readonly<Record<number, string>> = {
  403: 'If you need it, ask an owner of the organization for a role that may see it. If you are a member of another organization, switch to it in the account menu at the top right.',
  404: 'The link may be wrong, or it leads to an organization that you are not a member of.',
  429: 'Wait a moment, and load the page again.',
  503: 'Nothing was changed. Load the page again in a moment.',
}

export function problemPage({ status, code, message }: Problem, place: string): Page {
  const title =
    code === 'mfa_required'
      ? 'A second factor is needed'
      : code === 'sso_required'
        ? 'Another sign-in is needed'
        : (titles[status] ?? 'This did not work')
  // A 403 can also mean that a form came from another site: advice about roles would be wrong.
  const help = status === 403 && code !== 'insufficient_role' ? undefined : helps[status]
  const words = status === 404 ? null : message
  return {
    status,
    title,
    main: (
      <article class="narrow card">
        <h1>{title}</h1>
        {words === null ? null : (
          <p>
            <Message text={words} most={1_000} />
          </p>
        )}
        {help === undefined ? null : <p>{help}</p>}
        {code === 'mfa_required' ? (
          <p>
            <a class="button" href={factorPlace(place)}>
              Go to the second factor
            </a>
          </p>
        ) : null}
        {code === 'sso_required' ? (
          <p>
            <a class="button" href={`${providerSignInPath}?return=${encodeURIComponent(ownPlace(place))}`}>
              Company sign-in
            </a>
          </p>
        ) : null}
        {status === 403 && code !== 'insufficient_role' ? null : (
          <p>
            <a href={homePath}>Go to the first page</a>
          </p>
        )}
      </article>
    ),
  }
}

const factorPlace = (place: string): string =>
  `${secondFactorPath}?return=${encodeURIComponent(ownPlace(place))}`

/** Every field goes along, so that nothing that was written is lost. The page says so again if the token is too old. */
export const keptPage = (place: string, form: Form): Page => ({
  status: 403,
  title: 'Your sign-in has ended',
  main: (
    <article class="narrow card">
      <h1>Your sign-in has ended</h1>
      <p>Nothing was saved, and nothing that you wrote is lost.</p>
      <ol class="bullets">
        <li>
          <a href={signInPath} target="_blank" rel="noopener">
            Sign in in another tab
          </a>
          .
        </li>
        <li>Come back here, and go on.</li>
      </ol>
      <form method="post" action={place}>
        <Hidden fields={[...form].filter(([name]) => name !== 'action')} />
        <button class="primary" name="action" value="check">
          Go on
        </button>
      </form>
    </article>
  ),
})

const Hidden = ({ fields }: { fields: Iterable<[string, string]> }) => (
  <>
    {[...fields].map(([name, value]) => (
      <input type="hidden" name={name} value={value} />
    ))}
  </>
)

/**
 * A form of a page that showed another organization than the pages show now. `kept` is null if the form has what must not
 * stand in a page.
 */
export const switchedPage = (props: {
  readonly place: string
  /** A token of the present page. */
  readonly token: string
  readonly opened: Organization
  readonly now: Organization | null
  readonly kept: Form | null
}): Page => ({
  status: 409,
  title: 'You have switched to another organization',
  main: (
    <article class="narrow card">
      <h1>You have switched to another organization</h1>
      <p>
        The page of this form showed <strong>{nameOf(props.opened)}</strong>, and now you see{' '}
        <strong>{props.now === null ? 'no organization' : nameOf(props.now)}</strong>.{' '}
        {props.kept === null ? 'Nothing was done.' : 'Nothing was done, and nothing that you wrote is lost.'}
      </p>
      <ol class="bullets">
        <li>
          <PostForm action="/console/organization" token={props.token} target="_blank">
            <input type="hidden" name="organization_id" value={props.opened.id} />
            <button>Switch back in another tab</button>
          </PostForm>
        </li>
        <li>
          {props.kept === null
            ? 'Come back here, open the page again, and fill in its form once more: files and secrets are not kept here.'
            : 'Come back here, and send it once more.'}
        </li>
      </ol>
      {props.kept === null ? (
        <p>
          <a href={props.place}>Open the page again</a>
        </p>
      ) : (
        <form method="post" action={props.place}>
          <Hidden fields={props.kept} />
          <button class="primary">Send it once more</button>
        </form>
      )}
    </article>
  ),
})

const nameOf = ({ name }: Organization) => <Words text={name} most={200} />
