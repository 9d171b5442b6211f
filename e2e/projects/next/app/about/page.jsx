export default () => <h1>Made at build time</h1>;
