import { z } from 'zod'
import type { ToolName } from '../index.ts'
import { issueKeyOf, projectKeyOf } from '../../policy/readers/place-ids.ts'
import { ToolError, type Calling, type ReadContext } from '../kit/executor.ts'
import type { Service } from '../kit/exchange.ts'
import { restOf, type Rest } from '../kit/rest.ts'

/** Error messages may show them: the fields of each Jira site, and the ids of those that a site adds. */
const fieldName =
  /^(?:project|issuetype|summary|description|labels|priority|reporter|assignee|components|versions|fixVersions|environment|duedate|parent|security|customfield_\d{1,10})$/
const blamed = z.object({ errors: z.record(z.string(), z.unknown()) })

const errors: Service = {
  prefix: 'jira',
  fieldsIn: (answer) =>
    Object.keys(blamed.safeParse(answer).data?.errors ?? {}).filter((name) => fieldName.test(name)),
  title: 'Jira',
  address: 'TRACKER_BASE_URL',
  refusals: {
    400: [
      'jira_refused',
      'Jira does not take these values: check the project, the type, the labels (no spaces), the query, and which ' +
        'fields the project requires',
    ],
    403: [
      'jira_forbidden',
      'Jira does not let the connected account do this: give it this permission in the project',
    ],
    404: [
      'jira_not_found',
      'Jira has no such issue or project, or the connected account may not see it: check the key, and let the account browse the project',
    ],
    413: ['jira_too_large', 'the text or the file is larger than Jira takes: shorten it'],
  },
}

/** With the connection of one call. */
export interface Jira extends Rest {
  /** Throws `jira_other_site` for a link elsewhere, `invalid_params` for what names no issue. */
  issueAt(text: string): string
  /** Throws the same errors. */
  projectAt(text: string): string
  /** Throws `jira_moved` for another issue or project than `asked`. */
  requireSame(what: 'issue' | 'project', asked: string, got: string): void
  pageOf(key: string): string
}

/** The library `jira.js` loads 1,566 modules for any request. Only tests use it, to check the stand-in for Jira. */
export async function jiraOf(call: Calling, context: ReadContext, tool: ToolName): Promise<Jira> {
  const connection = await context.tools.connection(call, tool, 'jira')
  const { base } = connection
  return {
    ...restOf(connection, context.signal, errors),
    issueAt: (text) => found(issueKeyOf(text, base), text, '`issue` must be a key such as `OPS-12`'),
    projectAt: (text) => found(projectKeyOf(text, base), text, '`project` must be a key such as `OPS`'),
    requireSame(what, asked, got) {
      if (asked === got) return
      throw new ToolError(
        'jira_moved',
        `the ${what} has another key now: give its present key, so that rules decide about it`,
      )
    },
    pageOf: (key) => `${base}/browse/${key}`,
  }

  function found(key: string | null, text: string, must: string): string {
    if (key !== null) return key
    const { host } = new URL(base)
    const isElsewhere = URL.canParse(text) && new URL(text).host !== host
    const why = isElsewhere ? 'the link leads to another site than the connected one' : must
    throw new ToolError(
      isElsewhere ? 'jira_other_site' : 'invalid_params',
      `${why}: give the key, or a link of \`${host}\``,
    )
  }
}
