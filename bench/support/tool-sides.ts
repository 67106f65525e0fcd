import { Octokit } from '@octokit/rest'
import { createToolActivities } from '../../src/activities/attempt.ts'
import { readConfig } from '../../src/shared/config.ts'
import { createContext } from '../../src/programs/create-context.ts'
import { connect } from '../../src/governance/connections/connections.ts'
import type { Context } from '../../src/governance/context.ts'
import type { Caller } from '../../src/governance/access/identity.ts'
import { acceptRun } from '../../src/governance/runs/start/accept.ts'
import { createWorkflow } from '../../src/governance/workflows/workflows.ts'
import { execute } from '../../test/activities/execute.ts'
import { emulatorToken } from '../../test/support/emulators.ts'
import { newCaller } from './caller.ts'
import { withClient, type BenchPostgres } from './postgres.ts'

export type GithubTool = 'github_get_issue' | 'github_comment'

/** The two sides of the benchmark. Both use GitHub's API at the same address. */
export interface ToolSides {
  /** Accepts a run with one call. Returns a function that makes the call in the same way as a worker's activity. */
  governed(tool: GithubTool, params: object): Promise<() => Promise<void>>
  /** The GitHub client that the service also uses. The benchmark calls it directly. */
  readonly bare: Octokit
}

const bodies = createToolActivities()
/** Limits are raised, because this benchmark accepts runs and never finishes them. */
const lifted = {
  workflow_runs_per_hour: 600_000,
  concurrent_executions: 25_000,
  storage_mb: 10_000_000,
  requests_per_minute: 100_000,
}

/**
 * Runs `work` with parts of the service in this process. These parts use a new database, and the GitHub API at `url`.
 */
export async function withToolSides(
  postgres: BenchPostgres,
  url: string,
  work: (sides: ToolSides) => Promise<void>,
): Promise<void> {
  const config = readConfig({
    DATABASE_URL: postgres.appUrl,
    DATA_ENCRYPTION_KEY: Buffer.alloc(32).toString('base64'),
    LOG_LEVEL: 'error',
  })
  const context = createContext(config, 'worker')
  try {
    const caller = await newCaller(context)
    await withClient(postgres.adminUrl, (client) =>
      client.query(`update organizations set plan = 'enterprise', quota_overrides = $1`, [lifted]),
    )
    const credential = { token: emulatorToken, base_url: url }
    const asked = { tool: 'github_get_issue', credential, scope: 'personal', name: undefined } as const
    await connect(context, caller, asked, new AbortController().signal)
    await work({
      governed: (tool, params) => governed(context, caller, tool, params),
      bare: new Octokit({ auth: emulatorToken, baseUrl: url }),
    })
  } finally {
    await context.close()
  }
}

async function governed(
  context: Context,
  caller: Caller,
  tool: GithubTool,
  params: object,
): Promise<() => Promise<void>> {
  const { id } = await createWorkflow(context, caller, {
    name: `bench ${crypto.randomUUID()}`,
    description: '',
    definition: { steps: [{ id: 's', tool, params }] } as never,
  })
  const { runId } = await acceptRun(context, { caller, workflowId: id, inputs: {} })
  const args = [{ runId, stepId: 's', itemIndex: null }]
  const body = (decided: unknown): Promise<unknown> => bodies[tool]!(decided)
  return async () => {
    const { answer } = await execute(context, { workflowId: runId, activityType: tool, args, body })
    if ((answer as { outcome?: string }).outcome !== 'completed') throw answer
  }
}
