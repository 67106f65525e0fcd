/**
 * Who may import whom (ARCHITECTURE.md, "Layers"). Every rule here has a planted violation below test/checks/planted,
 * and `npm run check` fails when one of them goes unreported: a check that sees nothing would otherwise look green.
 */
const ours = '^src/'
/** Imports that leave the program: everything but types. */
const notTypes = { dependencyTypesNot: ['type-only'] }

/** A folder of ours that may import nothing of ours but these. */
function only(name, from, allowed, comment) {
  return {
    name,
    comment,
    severity: 'error',
    from: { path: from },
    to: { path: ours, pathNot: [from, ...allowed] },
  }
}

/** A folder of ours that may import no package and no part of Node but these. */
function packages(name, from, allowed, comment) {
  return {
    name,
    comment,
    severity: 'error',
    from: { path: from },
    to: {
      dependencyTypes: ['npm', 'npm-dev', 'core', 'npm-no-pkg', 'npm-unknown', 'unknown'],
      pathNot: allowed,
    },
  }
}

/**
 * The folders of src/governance, from the ground up, and the ones that each may import. All of them may import the loose files
 * beside them, but for `context.ts`: see `governance-below-the-context`.
 */
const governanceFolders = {
  sealing: [],
  waking: [],
  lanes: [],
  audit: ['sealing'],
  access: ['audit'],
  limits: ['audit', 'access'],
  connections: ['sealing', 'audit', 'access', 'limits'],
  webhooks: ['lanes', 'sealing', 'audit', 'access', 'limits'],
  tools: ['sealing', 'audit', 'access', 'limits'],
  'runs/values': ['sealing', 'limits'],
  files: ['sealing', 'audit', 'access', 'limits'],
  approvals: ['sealing', 'audit', 'access', 'runs/values'],
  notifications: ['lanes', 'audit', 'approvals'],
  changes: ['sealing', 'audit', 'access', 'limits', 'approvals'],
  'runs/end': ['sealing', 'audit', 'access', 'limits', 'approvals', 'runs/values'],
  'runs/read': ['sealing', 'access', 'approvals', 'runs/values'],
  'runs/start': ['lanes', 'sealing', 'audit', 'access', 'limits', 'tools', 'approvals', 'files', 'runs'],
  agents: ['sealing', 'audit', 'access', 'limits', 'approvals', 'runs/read'],
  workflows: ['audit', 'access', 'limits', 'tools', 'runs/values'],
  rules: ['audit', 'access', 'limits', 'approvals', 'changes', 'tools'],
  backtests: ['sealing', 'audit', 'access', 'limits', 'runs/values', 'approvals', 'rules'],
  people: [
    'audit',
    'access',
    'limits',
    'approvals',
    'changes',
    'tools',
    'agents',
    'connections',
    'notifications',
  ],
  declared: ['audit', 'access', 'limits', 'tools', 'approvals', 'changes', 'rules', 'people', 'workflows'],
  applying: ['audit', 'access', 'limits', 'approvals', 'changes', 'rules', 'people', 'signin', 'declared'],
  delivery: ['lanes', 'audit', 'runs/values', 'runs/end'],
  upkeep: [],
  reports: ['audit'],
}

/** The folders of src/governance that src/calls stands on, and those that stand on it. */
const belowCalls = '(sealing|audit|access|limits|tools|approvals|runs/values)'
const aboveCalls = '(runs/(start|end|read)|agents|rules|backtests)'

const governanceRules = Object.entries(governanceFolders).map(([folder, allowed]) => ({
  name: `governance-${folder.replace('/', '-')}`,
  comment: 'imports between the folders of src/governance run one way',
  severity: 'error',
  from: { path: `^src/governance/${folder}/` },
  to: {
    path: '^src/governance/.+/',
    pathNot: [folder, ...allowed].map((each) => `^src/governance/${each}/`),
  },
}))

/** What is declared of tools and of their services, and acts on nothing. Workflows load it. */
const declarations =
  '^src/tools/(index|facts|[^/]+/(tools|connect|fields|pages)|kit/(tool|preview|integration|errors))\\.ts$'

const inModules = (...names) => names.map((name) => `node_modules/${name}/`)

module.exports = {
  forbidden: [
    only('policy-is-pure', '^src/policy/', [], 'the policy core decides from its arguments alone'),
    packages(
      'policy-packages',
      '^src/policy/',
      inModules('zod', 'tldts', 'luxon', 're2js', 'csv-parse'),
      'no Node, no network, no database: zod, the public suffix list, and what the functions of expressions need',
    ),
    only('shell-is-pure', '^src/shell/', [], 'a command is read from its text alone'),
    packages('shell-packages', '^src/shell/', inModules('unbash'), 'the parser, and nothing that acts'),
    only('tools-declare', declarations, ['^src/policy/'], 'tools are declared in terms of the policy'),
    packages('tools-packages', declarations, inModules('zod'), 'declarations act on nothing'),
    only(
      'tools-below',
      '^src/tools/',
      ['^src/(policy|contract|shared)/'],
      'what a tool does is given its services: it knows no database, no transaction and no worker',
    ),
    only(
      'steps-declare',
      '^src/steps/',
      ['^src/(policy|contract)/', declarations],
      'a kind of step is declared from values alone',
    ),
    packages('steps-packages', '^src/steps/', inModules('zod'), 'kinds act on nothing'),
    only('contract-below', '^src/contract/', ['^src/(policy|steps)/', declarations], 'shapes, not behaviour'),
    packages('contract-packages', '^src/contract/', inModules('zod', 'ulid'), 'workflows load it: no Node'),
    {
      name: 'db-takes-types',
      comment: 'the database layer knows the words of policy and contract, and none of their behaviour',
      severity: 'error',
      from: { path: '^src/db/' },
      to: { path: '^src/(policy|contract)/', ...notTypes },
    },
    only('db-below', '^src/db/', ['^src/(policy|contract)/'], 'tables know nobody who uses them'),
    only(
      'workflows-are-deterministic',
      '^src/workflows/',
      ['^src/(policy|contract|steps)/', declarations, '^src/activities/'],
      'workflow code is replayed: it may only see pure modules',
    ),
    {
      name: 'workflows-take-activity-types',
      comment: 'a workflow schedules activities by name, it never loads one',
      severity: 'error',
      from: { path: '^src/workflows/' },
      to: { path: '^src/activities/', ...notTypes },
    },
    packages(
      'workflows-packages',
      '^src/workflows/',
      ['node_modules/@temporalio/(workflow|common)/'],
      'anything else breaks the bundle or the replay',
    ),
    only(
      'governance-below',
      '^src/governance/',
      ['^src/(policy|shell|contract|steps|db|shared|calls)/', declarations],
      'transactions and domain errors; who calls them, and over what, is not its business',
    ),
    ...governanceRules,
    only(
      'calls-below',
      '^src/calls/',
      ['^src/(policy|shell|contract|steps|db|shared|governance)/', declarations],
      'a call is decided and kept here; who asks, and what its tool does, is not its business',
    ),
    {
      name: 'calls-between',
      comment: 'a call stands on the lower folders of src/governance alone',
      severity: 'error',
      from: { path: '^src/calls/' },
      to: { path: '^src/governance/.+/', pathNot: [`^src/governance/${belowCalls}/`] },
    },
    {
      name: 'governance-below-calls',
      comment: 'only what starts, ends, shows or tries calls knows how a call is decided',
      severity: 'error',
      from: { path: '^src/governance/', pathNot: [`^src/governance/${aboveCalls}/`] },
      to: { path: '^src/calls/' },
    },
    {
      name: 'governance-context',
      comment: 'the context is made of the lowest folders alone',
      severity: 'error',
      // The second name is that of the planted violation.
      from: { path: '^src/governance/(context|governance-context)\\.ts$' },
      to: {
        path: '^src/governance/',
        pathNot: ['^src/governance/(sealing|waking|audit|access|limits|runs/values)/'],
      },
    },
    {
      name: 'governance-below-the-context',
      comment: 'the context is made of these: their functions take the two or three things that they use',
      severity: 'error',
      from: { path: '^src/governance/(sealing|waking|audit|access|limits|runs/values)/' },
      to: { path: '^src/governance/context\\.ts$' },
    },
    only(
      'shared-below',
      '^src/shared/',
      ['^src/(contract|db)/'],
      'what all programs share knows none of them',
    ),
    only(
      'activities-on-top',
      '^src/activities/',
      ['^src/(policy|shell|tools|steps|contract|db|governance|calls|shared)/'],
      'activities and the API are neighbours that never meet',
    ),
    only(
      'console-is-a-caller',
      '^src/console/',
      ['^src/(policy|contract|steps)/', '^src/api/routes/index\\.ts$'],
      'pages read and change things through the routes of the API, which they are given',
    ),
    {
      name: 'console-takes-types',
      comment: 'pages know the form of answers by their route, and nothing that reads or decides',
      severity: 'error',
      from: { path: '^src/console/' },
      to: { path: '^src/api/', ...notTypes },
    },
    packages(
      'console-packages',
      '^src/console/',
      inModules(
        'preact',
        'preact-render-to-string',
        '@dagrejs/dagre',
        'lru-cache',
        'uqr',
        'diff',
        'marked',
        '@codemirror',
        '@lezer',
      ),
      'pages are made from their data alone',
    ),
    only(
      'cli-is-a-caller',
      '^src/cli/',
      ['^src/(contract|shared)/', '^src/api/routes/index\\.ts$'],
      'the command line uses the public HTTP API, as anybody would',
    ),
    {
      name: 'cli-takes-types',
      comment: 'the command line knows the form of answers by their route, and loads nothing of a server',
      severity: 'error',
      from: { path: '^src/cli/' },
      to: { path: '^src/api/', ...notTypes },
    },
    only(
      'api-on-top',
      '^src/api/',
      ['^src/(policy|shell|contract|db|governance|calls|shared|console)/', declarations],
      'activities and the API are neighbours that never meet',
    ),
    only(
      'stack-stands-alone',
      '^src/stack/',
      ['^src/shared/(project-root|environment|sign-up-setting|own-hosts)\\.ts$'],
      'it starts programs; it is given what it runs',
    ),
    only(
      'demo-is-a-caller',
      '^src/demo/',
      ['^src/stack/'],
      'the demo starts a stack and uses the public HTTP API, as anybody would',
    ),
    {
      name: 'stack-is-for-programs',
      comment: 'only what is started by hand or by the stack knows that there is one',
      severity: 'error',
      from: { path: ours, pathNot: ['^src/(stack|demo|programs)/'] },
      to: { path: '^src/stack/' },
    },
    {
      name: 'http-is-the-apis',
      comment:
        'only the API knows requests, answers and their statuses; the demo and the stand-ins play services outside',
      severity: 'error',
      from: {
        path: ours,
        pathNot: [
          '^src/api/',
          '^src/programs/api-server\\.ts$',
          '^src/demo/code-host\\.ts$',
          '^src/stack/stand-ins/server\\.ts$',
        ],
      },
      to: { path: ['node_modules/express/', '^(node:)?https?$'] },
    },
    {
      name: 'programs-are-started',
      comment: 'a program is run, not imported',
      severity: 'error',
      from: { path: ours, pathNot: ['^src/programs/'] },
      to: { path: '^src/programs/' },
    },
    {
      name: 'product-without-tests',
      comment: 'what is shipped needs nothing of what is not',
      severity: 'error',
      from: { path: ours },
      to: { path: '^(test|bench|scripts)/' },
    },
    {
      name: 'product-without-development-packages',
      comment: 'an installation without development packages must run',
      severity: 'error',
      from: { path: ours },
      to: {
        dependencyTypes: ['npm-dev'],
        dependencyTypesNot: ['npm', 'type-only'],
        pathNot: ['node_modules/@types/'],
      },
    },
    {
      name: 'no-circles',
      comment:
        'modules that need each other are one module, also where it is only a type that one of them needs',
      severity: 'error',
      from: {},
      to: { circular: true },
    },
    {
      name: 'resolvable',
      comment: 'what cannot be found cannot be judged',
      severity: 'error',
      from: {},
      to: { couldNotResolve: true },
    },
  ],
  options: {
    tsPreCompilationDeps: true,
    tsConfig: { fileName: require('node:path').join(__dirname, 'tsconfig.json') },
    combinedDependencies: true,
    doNotFollow: { path: 'node_modules' },
    enhancedResolveOptions: {
      exportsFields: ['exports'],
      conditionNames: ['import', 'node', 'default', 'types'],
      extensions: ['.ts', '.tsx', '.js', '.json'],
    },
  },
}
