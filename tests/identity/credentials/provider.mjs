// An authorization server for upstreams: provider.mjs PORT CLIENTS, the clients as JSON. Prints a line when it listens.
import Provider from "oidc-provider";

const [port, clients] = process.argv.slice(2);
const issuer = `http://127.0.0.1:${port}`;
const provider = new Provider(issuer, {
  clients: JSON.parse(clients).map((client) => ({
    grant_types: ["client_credentials"],
    redirect_uris: [],
    response_types: [],
    ...client,
  })),
  clientAuthMethods: ["client_secret_basic", "private_key_jwt"],
  scopes: ["tools.call"],
  features: {
    clientCredentials: { enabled: true },
    devInteractions: { enabled: false },
    resourceIndicators: {
      enabled: true,
      getResourceServerInfo: (_, resource) => ({
        scope: "tools.call",
        audience: resource,
        accessTokenTTL: 120,
        accessTokenFormat: "jwt",
      }),
    },
  },
});
provider.listen(Number(port), "127.0.0.1", () => console.log("listening"));
